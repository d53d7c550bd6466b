def device(a):
    if a > 0:
        return a

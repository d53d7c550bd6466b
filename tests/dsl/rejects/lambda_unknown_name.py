device = (lambda v: v * 2, lambda v: v + facotr)[1]
factor = 3

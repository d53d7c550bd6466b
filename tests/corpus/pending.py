"""What does not hold yet: cases whose bug is not reported, and twins (`twin of …`) that are not silent or not right.

Each is expected to fail, and to be taken out here as soon as it does not.
"""

PENDING: frozenset[str] = frozenset()

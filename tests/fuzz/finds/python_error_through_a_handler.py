# An exception that a handler lets through kept no line of the function.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(l):
    try:
        unknown
    except Broken:
        pass


CALLS = [lambda: (([],), {})]

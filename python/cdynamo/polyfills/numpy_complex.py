"""NumPy's complex arrays in terms of real ones: what each function and method does to the pairs (real part, imaginary
part) that lie along one more dim, with NumPy's results, dtypes and layouts. A rule that gives NotImplemented leaves its
call to NumPy's library, as do ufuncs and functions without one. Here: what capture asks for, and methods that are the
functions; the rules are in `numpy_complex_items.py`, `_factories.py`, `_arithmetic.py` and `_views.py`."""

import numpy as np

from cdynamo.polyfills import numpy_complex_arithmetic  # noqa: F401  (its rules)
from cdynamo.polyfills.numpy_complex_factories import astype, number
from cdynamo.polyfills.numpy_complex_items import getitem, setattribute, setitem, write
from cdynamo.polyfills.numpy_complex_pairs import METHODS, PROPERTIES, RULES

__all__ = ["METHODS", "PROPERTIES", "RULES", "astype", "getitem", "number", "setattribute", "setitem", "write"]

for _name in ("prod", "cumprod", "std", "var", "take", "any", "all", "round", "max", "min",
              "argmax", "argmin", "sort", "argsort", "clip"):  # fmt: skip
    METHODS.setdefault(_name, getattr(np, _name))
del _name, METHODS["sort"]

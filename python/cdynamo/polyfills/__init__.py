"""Library code that CPython implements in C, stated in Python: inlined while a program is captured, never called."""

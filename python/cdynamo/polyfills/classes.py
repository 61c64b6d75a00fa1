"""What stands in a class while it is captured, so that making it runs nothing of the program's."""


def ignore_subclass(cls, **keywords):
    """In place of an `__init_subclass__`, which capture calls itself."""

"""What stands for an object as a key of dicts and sets while capture has no such object."""


class InstanceKey:
    """An instance of a class that hashes and compares by a tuple of its fields."""

    __slots__ = ("cls", "fields")

    def __init__(self, cls, fields):
        self.cls = cls
        self.fields = fields

    def __hash__(self):
        return hash(self.fields)

    def __eq__(self, other):
        return type(other) is InstanceKey and self.cls is other.cls and self.fields == other.fields

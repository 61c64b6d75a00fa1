"""What compiled code calls for NumPy's own objects."""


def read_only(array):
    """`array` itself, not writeable any more: as NumPy returns the views of broadcast_to and diagonal."""
    array.flags.writeable = False
    return array

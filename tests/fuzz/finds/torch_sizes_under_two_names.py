# seed 8600587322, backend native
# call 0: objects
#   compiled: ('tuple', ('tuple', ('str', "'returned'"), ('list', ('tuple', ('Size', ('int', '2'), ('int', '15')), ('Size', ('int', '2'), ('int', '15')), ('NoneType', 'None')))), ('list', ('Tensor', 'torch.float64', (2, 15), (15, 1), (False, True), 0, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0, 21.0, 22.0, 23.0, 24.0, 25.0, 26.0, 27.0, 28.0, 29.0]), ('Tensor', 'torch.float64', (2, 15), (15, 1), (False, True), 1, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0, 21.0, 22.0, 23.0, 24.0, 25.0, 26.0, 27.0, 28.0, 29.0]), ('list', ('tuple', ('int', '1'), ('int', '2')), ('dict',)), ('dict', (('str', "'k'"), ('str', "'v'")), (('str', "'j'"), ('list', ('int', '1')))), ('Item', ('dict', (('str', "'v'"), ('str', "'w'")))), ('tuple_iterator',), ('int', '7'), ('int', '0'), ('str', "'s'")), ('list',), ('dict', (('str', "'n'"), ('int', '0'))), ('NoneType', 'None'))
#   plain:    ('tuple', ('tuple', ('str', "'returned'"), ('list', ('tuple', ('Size', ('int', '2'), ('int', '15')), ('int', '7'), ('NoneType', 'None')))), ('list', ('Tensor', 'torch.float64', (2, 15), (15, 1), (False, True), 0, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0, 21.0, 22.0, 23.0, 24.0, 25.0, 26.0, 27.0, 28.0, 29.0]), ('Tensor', 'torch.float64', (2, 15), (15, 1), (False, True), 1, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0, 21.0, 22.0, 23.0, 24.0, 25.0, 26.0, 27.0, 28.0, 29.0]), ('list', ('tuple', ('int', '1'), ('int', '2')), ('dict',)), ('dict', (('str', "'k'"), ('str', "'v'")), (('str', "'j'"), ('list', ('int', '1')))), ('Item', ('dict', (('str', "'v'"), ('str', "'w'")))), ('tuple_iterator',), ('int', '7'), ('int', '0'), ('str', "'s'")), ('list',), ('dict', (('str', "'n'"), ('int', '0'))), ('NoneType', 'None'))
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


def f(x, y, l, d, o, z, n, m, s):
    log = []

    class Own:
        def __init__(self, w):
            self.w = w

        @property
        def both(self):
            return (self.v, self.w, cdynamo.graph_break())

        @classmethod
        def make(cls, w):
            cls.v = w
            return cls(w)

    Own.make(y.shape).both
    log.append(Own(n).both)
    return log


CALLS = [
    lambda: (
        lambda x: (
            (
                torch.arange(30.0).reshape((2, 15)).to(torch.float64),
                x,
                [(1, 2), {}],
                {"k": "v", "j": [1]},
                Item("w"),
                iter(()),
                7,
                0,
                "s",
            ),
            {},
        )
    )(torch.arange(30.0).reshape((2, 15)).to(torch.float64))
]

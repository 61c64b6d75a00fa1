"""torch.nn.utils.rnn: sequences of several lengths, packed and padded, and recurrent layers over them, in one graph."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn.utils import rnn  # noqa: E402

import cdynamo  # noqa: E402

pytestmark = pytest.mark.native  # sizes depend on data, where backends in Python get a break

SORTED, UNSORTED = torch.tensor([6, 4, 2]), torch.tensor([2, 6, 3])
PADDED = torch.linspace(-1, 1, 3 * 6 * 4).reshape(3, 6, 4)


def leaves_of(tree):
    if isinstance(tree, (tuple, list)):
        return [leaf for item in tree for leaf in leaves_of(item)]
    return [] if tree is None else [tree]


def run(f, arguments, module=None):
    """Results, then the gradients of the arguments and of the module's parameters."""
    given = [x.clone().requires_grad_(x.is_floating_point()) for x in arguments]
    if module is not None:
        module.zero_grad()
    results = leaves_of(f(*given))
    losses = [
        (result * torch.linspace(0.5, 1.5, result.numel()).reshape(result.shape)).sum()
        for result in results
        if result.requires_grad
    ]
    sum(losses).backward()
    gradients = [x.grad for x in given if x.requires_grad]
    gradients += [parameter.grad.clone() for parameter in (module.parameters() if module is not None else ())]
    return [result.detach() for result in results], gradients


def check(f, *arguments, module=None, counts=None, compiled=None):
    compiled = compiled or cdynamo.optimize(f, fullgraph=True)
    got, gradients = run(compiled, arguments, module)
    expected, wanted = run(f, arguments, module)
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b)
        assert a.stride() == b.stride()
    torch.testing.assert_close(gradients, wanted)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("lengths", [SORTED, UNSORTED, torch.tensor([6, 6, 6]), torch.tensor([1, 1, 1])], ids=str)
def test_packing_and_padding(batch_first, lengths):
    padded = PADDED if batch_first else PADDED.transpose(0, 1).contiguous()

    def f(padded, lengths):
        packed = rnn.pack_padded_sequence(padded * 2, lengths, batch_first, enforce_sorted=False)
        again, counts = rnn.pad_packed_sequence(packed, batch_first, padding_value=-3.0)
        longer, _ = rnn.pad_packed_sequence(packed, batch_first, total_length=9)
        parts = packed.data * 1, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices
        return *parts, again, counts, longer

    check(f, padded, lengths)


def test_lists_of_lengths():
    def f(padded):
        packed = rnn.pack_padded_sequence(padded, [6, 4, 2], batch_first=True)
        return packed.data * 2, packed.batch_sizes, rnn.pad_packed_sequence(packed)

    check(f, PADDED)


def test_sequences():
    def f(a, b, c):
        packed = rnn.pack_sequence([a, b, c], enforce_sorted=False)
        return packed.data * 1, packed.batch_sizes, rnn.pad_packed_sequence(packed), rnn.pad_sequence([a, b, c])

    check(f, torch.randn(2, 3), torch.randn(5, 3), torch.randn(4, 3))


LAYERS = {
    "lstm": lambda: nn.LSTM(4, 5, batch_first=True),
    "lstm in two directions": lambda: nn.LSTM(4, 5, num_layers=2, bidirectional=True, batch_first=True),
    "lstm with a projection": lambda: nn.LSTM(4, 5, proj_size=3, batch_first=True),
    "gru": lambda: nn.GRU(4, 5, num_layers=2, batch_first=True),
    "gru without biases": lambda: nn.GRU(4, 5, bias=False, bidirectional=True, batch_first=True),
    "rnn": lambda: nn.RNN(4, 5, batch_first=True),
    "rnn with relu": lambda: nn.RNN(4, 5, nonlinearity="relu", batch_first=True),
}


@pytest.mark.parametrize("name", LAYERS)
def test_recurrent_layers(name, counts):
    torch.manual_seed(0)
    layer = LAYERS[name]()

    def f(padded, lengths):
        packed = rnn.pack_padded_sequence(padded * 2, lengths, batch_first=True, enforce_sorted=False)
        output, state = layer(packed)
        output, counted = rnn.pad_packed_sequence(output, batch_first=True, total_length=padded.shape[1])
        return output.tanh(), counted, state

    compiled = cdynamo.optimize(f, fullgraph=True)
    for lengths in (SORTED, UNSORTED, torch.tensor([5, 3, 3]), SORTED):
        check(f, PADDED, lengths, module=layer, compiled=compiled)
    assert counts.graph_breaks == 0


def test_a_state_that_is_given():
    layer = nn.LSTM(4, 5)

    def f(padded, lengths, h, c):
        output, (h, c) = layer(rnn.pack_padded_sequence(padded, lengths, enforce_sorted=False), (h, c))
        return rnn.pad_packed_sequence(output)[0], h, c

    states = torch.randn(1, 3, 5), torch.randn(1, 3, 5)
    check(f, PADDED.transpose(0, 1).contiguous(), UNSORTED, *states, module=layer)


def test_a_tagger_and_its_lengths(counts):
    """Batches of other sizes and lengths, as a loader gives them."""

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(20, 4, padding_idx=0)
            self.layer = nn.LSTM(4, 5, bidirectional=True, batch_first=True)
            self.head = nn.Linear(10, 3)

        def forward(self, ids, lengths, tags):
            packed = rnn.pack_padded_sequence(self.embed(ids), lengths, batch_first=True, enforce_sorted=False)
            output, _ = self.layer(packed)
            output, _ = rnn.pad_packed_sequence(output, batch_first=True, total_length=ids.size(1))
            mask = torch.arange(ids.size(1)) < lengths[:, None]
            return nn.functional.cross_entropy(self.head(output)[mask], tags[mask])

    torch.manual_seed(0)
    model = Tagger()
    compiled = cdynamo.optimize(model)
    for lengths in ([5, 3, 7], [7, 7, 2], [4, 2, 6, 3], [4, 9, 6, 3], [4, 9, 6, 8, 3]):
        lengths = torch.tensor(lengths)
        ids = torch.randint(1, 20, (len(lengths), int(lengths.max())))
        tags = torch.randint(0, 3, ids.shape)
        losses = []
        for forward in (model, compiled):
            model.zero_grad()
            loss = forward(ids, lengths, tags)
            loss.backward()
            losses.append([loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())])
        torch.testing.assert_close(*losses)


@pytest.mark.parametrize("lengths", [torch.tensor([2, 6, 3]), torch.tensor([6, 4, 0])], ids=str)
def test_lengths_that_do_not_fit(lengths):
    def f(padded, lengths):
        return rnn.pack_padded_sequence(padded, lengths, batch_first=True).data * 2

    compiled = cdynamo.optimize(f)
    torch.testing.assert_close(compiled(PADDED, SORTED), f(PADDED, SORTED))
    with pytest.raises(RuntimeError) as expected:
        f(PADDED, lengths)
    with pytest.raises(RuntimeError) as raised:
        compiled(PADDED, lengths)
    assert str(raised.value) == str(expected.value)


def test_dropout_between_layers_is_left_to_pytorch():
    layer = nn.LSTM(4, 5, num_layers=2, dropout=0.5, batch_first=True)

    def f(padded, lengths):
        output, _ = layer(rnn.pack_padded_sequence(padded * 2, lengths, batch_first=True))
        return rnn.pad_packed_sequence(output, batch_first=True)[0]

    results = []
    for call in (f, cdynamo.optimize(f)):
        torch.manual_seed(1)
        results.append(call(PADDED, SORTED))
    torch.testing.assert_close(*results)

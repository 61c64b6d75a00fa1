"""Encoders and decoders of torch.nn: one graph each, whose results are eager's where that goes over to nested tensors."""

import pytest

import cdynamo

torch = pytest.importorskip("torch")
nn = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

CAUSAL = nn.Transformer.generate_square_subsequent_mask(5)
PADDING = {
    "none": None,
    "at the ends": torch.tensor([[False] * 3 + [True] * 2, [False] * 4 + [True]]),
    "in between": torch.tensor([[False, True, False, False, True], [False] * 5]),
    "all of one": torch.tensor([[True] * 5, [False] * 5]),
    "numbers at the ends": torch.tensor([[0.0] * 3 + [-1.0] * 2, [0.0] * 4 + [-1.0]]),
    "nowhere": torch.zeros(2, 5, dtype=torch.bool),
}


def same_in_one_graph(f, *inputs):
    cdynamo.reset()
    before = cdynamo.counters()
    torch.testing.assert_close(cdynamo.optimize(f)(*inputs), f(*inputs), equal_nan=True)
    after = cdynamo.counters()
    assert after["graph_breaks"] == before["graph_breaks"]
    assert after["graphs_compiled"] == before["graphs_compiled"] + 1


@pytest.mark.native
@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("mask", [None, CAUSAL])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"activation": "gelu", "batch_first": False}])
def test_encoder(padding, mask, grad, options):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, **{"batch_first": True, **options})
    encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8)).eval()
    x = torch.randn(2, 5, 8) if layer.self_attn.batch_first else torch.randn(5, 2, 8)
    given = PADDING[padding]
    if given is not None and mask is not None:
        given = given if given.is_floating_point() else torch.zeros(2, 5).masked_fill(given, float("-inf"))
    with torch.set_grad_enabled(grad):
        same_in_one_graph(lambda x: encoder(x, mask, given), x)


def test_masks_that_change():
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
    compiled = cdynamo.optimize(encoder)
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        for mask in PADDING.values():
            expected = encoder(x, src_key_padding_mask=mask)
            torch.testing.assert_close(compiled(x, src_key_padding_mask=mask), expected)


@pytest.mark.native
@pytest.mark.parametrize("mask", [None, CAUSAL, torch.randn(5, 5)])
def test_decoder(mask):
    torch.manual_seed(0)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 2)
    same_in_one_graph(lambda x, memory: decoder(x, memory, tgt_mask=mask), torch.randn(2, 5, 8), torch.randn(2, 3, 8))

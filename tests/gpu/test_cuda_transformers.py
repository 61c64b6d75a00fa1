"""transformers' models from small configs on a CUDA device: one graph, equal to eager, in evaluation and training."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import cdynamo  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
    pytest.mark.native,
]
DEVICE = "cuda:0"


def gpt2():
    config = transformers.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=101, n_positions=64)
    return transformers.GPT2LMHeadModel(config), tokens()


def llama():
    config = transformers.LlamaConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=101,
        intermediate_size=96,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config), tokens()


def bert():
    config = transformers.BertConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=101, intermediate_size=96
    )
    return transformers.BertForMaskedLM(config), tokens()


def vit():
    config = transformers.ViTConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8, intermediate_size=96
    )
    return transformers.ViTForImageClassification(config), {
        "pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([0, 1])
    }  # fmt: skip


def tokens():
    ids = torch.randint(0, 101, (2, 24))
    return {"input_ids": ids, "labels": ids}


def distance(x, y):
    return (x.double() - y.double()).norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("make", [gpt2, llama, bert, vit])
def test_a_model_is_one_graph(make, training, dtype, monkeypatch):
    torch.manual_seed(0)
    model, batch = make()
    model = model.to(DEVICE, dtype).train(training)
    batch = {k: v.to(DEVICE, dtype if v.is_floating_point() else None) for k, v in batch.items()}
    options = {} if make is vit else {"use_cache": False} if make is not bert else {}

    def run(model):
        torch.manual_seed(1)
        with torch.set_grad_enabled(training):
            out = model(**batch, **options)
        if training:
            model.zero_grad()
            out.loss.backward()
            return out.logits, [p.grad.clone() for p in model.parameters() if p.grad is not None]
        return out.logits, []

    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    want = run(model)
    got = run(cdynamo.optimize(model, fullgraph=True))
    tolerance, least = (1e-4, 1e-3) if dtype == torch.float32 else (5e-2, 1e-1)
    assert distance(got[0], want[0]) < tolerance * want[0].double().norm()
    # Some gradients are zero but for rounding, as those of the keys' biases.
    largest = max((y.double().norm() for y in want[1]), default=0)
    for x, y in zip(got[1], want[1], strict=True):
        assert distance(x, y) < tolerance * max(y.double().norm(), least * largest)

"""The joint, forward and backward graphs that explain() gives, run as torch.fx programs."""

import pytest

import cdynamo

torch = pytest.importorskip("torch")
nn = torch.nn


@pytest.fixture
def explained():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3), nn.LogSoftmax(-1))
    x = torch.randn(5, 6)
    with torch.enable_grad():
        explanation = cdynamo.explain(model)(x)
    return model, x, explanation


def test_training_has_three_stages(explained):
    _, _, explanation = explained
    for name in ("joint", "forward", "backward"):
        (graph,) = explanation.stage(name)
        text = graph.print_readable(print_output=False)
        assert text.startswith("graph(") and "core.mm" in text
        assert graph.to_dot().startswith("digraph")


def test_the_joint_graph_runs_in_fx_and_gives_eager_s_numbers(explained):
    model, x, explanation = explained
    (joint,) = explanation.stage("joint")
    grad_output = torch.randn(5, 3)
    with torch.enable_grad():
        out = model(x)
        expected = [out.detach(), *torch.autograd.grad(out, list(model.parameters()), grad_output)]
    module = joint.to_fx()
    assert isinstance(module, torch.fx.GraphModule)
    order = _order(joint, model, x, grad_output)
    got = module(*order)
    assert len(got) == len(expected)
    for a in got:
        assert any(a.shape == b.shape and torch.allclose(a, b, atol=1e-5) for b in expected)


def _order(graph, model, x, grad_output):
    """The inputs by the names that the graph gives them."""
    parameters = dict(model.named_parameters())
    values = []
    for node in graph.placeholders:
        if node.name.startswith("grad_"):
            values.append(grad_output)
            continue
        found = [p for name, p in parameters.items() if _matches(node.name, name)]
        values.append(found[0].detach() if found else x)
    return values


def _matches(placeholder: str, parameter: str) -> bool:
    module, kind = parameter.split(".")
    return f"modules_{module}_" in placeholder and placeholder.endswith(f"parameters_{kind}")


def test_inference_has_one_stage():
    with torch.no_grad():
        explanation = cdynamo.explain(lambda x: torch.softmax(x, -1).cumsum(0))(torch.randn(3, 4))
    (graph,) = explanation.stage("inference")
    x = torch.randn(3, 4)
    torch.testing.assert_close(graph.to_fx()(x)[0], torch.softmax(x, -1).cumsum(0))
    torch.testing.assert_close(graph.run([x])[0], torch.softmax(x, -1).cumsum(0))

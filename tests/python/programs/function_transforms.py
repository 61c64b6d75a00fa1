"""What torch.func is used for: gradients of each example, ensembles, tangent kernels, Laplacians, learning to learn, differential
equations."""

from __future__ import annotations

import torch
from torch import nn
from torch.func import functional_call, grad, hessian, jacrev, jvp, stack_module_state, vmap
from torch.nn import functional as F


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 8, 3)
        self.last = nn.Linear(8 * 3 * 3, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.second(F.relu(self.first(x)))), 2)
        return F.log_softmax(self.last(torch.flatten(x, 1)), dim=1)


def parameters_of(module):
    return {name: p.detach() for name, p in module.named_parameters()}


def perceptron():
    return nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))


def gradients_of_each_example():
    network = Convolutional()

    def loss(parameters, sample, target):
        return F.nll_loss(functional_call(network, parameters, (sample[None],)), target[None])

    def clipped(parameters, samples, targets):
        gradients = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, samples, targets)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
        scale = (1.0 / (norms + 1e-6)).clamp(max=1.0)
        return {name: torch.einsum("n,n...->...", scale, g) for name, g in gradients.items()}

    return clipped, (parameters_of(network), torch.randn(6, 1, 10, 10), torch.randint(0, 5, (6,)))


def an_ensemble():
    networks = [Convolutional() for _ in range(3)]
    parameters, buffers = stack_module_state(networks)

    def predict(x):
        def one(p, b, x):
            return functional_call(networks[0], (p, b), (x,))

        return vmap(one, in_dims=(0, 0, None))(parameters, buffers, x)

    return predict, (torch.randn(4, 1, 10, 10),)


def a_tangent_kernel():
    network = Convolutional()

    def predict(parameters, x):
        return functional_call(network, parameters, (x[None],))[0]

    def kernel(parameters, a, b):
        of_a = [j.flatten(2) for j in vmap(jacrev(predict), (None, 0))(parameters, a).values()]
        of_b = [j.flatten(2) for j in vmap(jacrev(predict), (None, 0))(parameters, b).values()]
        return sum(torch.einsum("naf,mbf->nmab", i, j) for i, j in zip(of_a, of_b))

    return kernel, (parameters_of(network), torch.randn(3, 1, 10, 10), torch.randn(2, 1, 10, 10))


def a_laplacian():
    weight = torch.randn(8, 3)

    def laplacian(x):
        return vmap(lambda r: hessian(lambda r: torch.tanh(weight @ r).sum())(r).diagonal().sum())(x)

    return laplacian, (torch.randn(5, 3),)


def a_product_with_a_hessian():
    return lambda x, v: jvp(grad(lambda x: (x.sin() * x).sum()), (x,), (v,))[1], (torch.randn(5), torch.randn(5))


def learning_to_learn():
    network = perceptron()

    def error(parameters, x, y):
        return ((functional_call(network, parameters, (x,)) - y) ** 2).mean()

    def adapted(parameters, x, y):
        gradients = grad(error)(parameters, x, y)
        return error({name: p - 0.1 * gradients[name] for name, p in parameters.items()}, x, y)

    def step(parameters, x, y):
        return grad(lambda p: vmap(adapted, in_dims=(None, 0, 0))(p, x, y).mean())(parameters)

    return step, (parameters_of(network), torch.randn(4, 5, 1), torch.randn(4, 5, 1))


def a_differential_equation():
    network = perceptron()
    parameters = parameters_of(network)

    def residual(parameters, t):
        def u(t):
            return functional_call(network, parameters, (t.reshape(1, 1),)).squeeze() * t

        return vmap(lambda t: grad(grad(u))(t) + u(t))(t).square().mean()

    return lambda t: grad(residual)(parameters, t), (torch.linspace(0, 1, 7),)


def program(make):
    def run(optimize):
        torch.manual_seed(0)
        function, arguments = make()
        compiled = optimize(function)
        return [compiled(*arguments) for _ in range(2)]

    run.__name__ = make.__name__
    return run


PROGRAMS = [
    program(make)
    for make in (
        gradients_of_each_example, an_ensemble, a_tangent_kernel, a_laplacian, a_product_with_a_hessian, learning_to_learn,
        a_differential_equation,
    )
]  # fmt: skip

"""Graph networks as torch_geometric builds them: a base class that takes messages' arguments from their signature, and
aggregations by scatter."""

from __future__ import annotations

import inspect

import torch
from torch import nn
from torch.nn import functional as F


def scatter(source, index, size, reduce="sum"):
    shape = (size, *source.shape[1:])
    places = index.view(-1, *[1] * (source.dim() - 1)).expand_as(source)
    if reduce == "sum":
        return source.new_zeros(shape).scatter_add_(0, places, source)
    if reduce == "mean":
        counts = source.new_zeros(size).scatter_add_(0, index, source.new_ones(len(index))).clamp_(min=1)
        return scatter(source, index, size) / counts.view(-1, *[1] * (source.dim() - 1))
    return source.new_zeros(shape).scatter_reduce_(0, places, source, reduce="a" + reduce, include_self=False)


def softmax_of_groups(source, index, size):
    largest = scatter(source.detach(), index, size, "max")
    weights = (source - largest.index_select(0, index)).exp()
    return weights / (scatter(weights, index, size).index_select(0, index) + 1e-16)


def add_self_loops(edges, nodes):
    loops = torch.arange(nodes).repeat(2, 1)
    return torch.cat([edges, loops], dim=1)


class MessagePassing(nn.Module):
    def __init__(self, aggregation="sum"):
        super().__init__()
        self.aggregation = aggregation
        self.wanted = list(inspect.signature(self.message).parameters)

    def propagate(self, edges, size, **kwargs):
        source, target = edges
        collected = {}
        for name in self.wanted:
            if name.endswith("_j"):
                collected[name] = kwargs[name[:-2]].index_select(0, source)
            elif name.endswith("_i"):
                collected[name] = kwargs[name[:-2]].index_select(0, target)
            elif name == "index":
                collected[name] = target
            elif name == "size":
                collected[name] = size
            else:
                collected[name] = kwargs.get(name)
        return self.update(scatter(self.message(**collected), target, size, self.aggregation))

    def message(self, x_j):
        return x_j

    def update(self, aggregated):
        return aggregated


class Convolution(MessagePassing):
    def __init__(self, fan_in, fan_out):
        super().__init__("sum")
        self.lin = nn.Linear(fan_in, fan_out, bias=False)
        self.bias = nn.Parameter(torch.zeros(fan_out))

    def forward(self, x, edges):
        edges = add_self_loops(edges, x.size(0))
        source, target = edges
        degree = scatter(torch.ones(edges.size(1)), target, x.size(0))
        scale = degree.pow(-0.5)
        scale[scale == float("inf")] = 0
        norm = scale[source] * scale[target]
        return self.propagate(edges, x.size(0), x=self.lin(x), norm=norm) + self.bias

    def message(self, x_j, norm):
        return norm.view(-1, 1) * x_j


class GraphAttention(MessagePassing):
    def __init__(self, fan_in, fan_out, heads=2):
        super().__init__("sum")
        self.heads, self.fan_out = heads, fan_out
        self.lin = nn.Linear(fan_in, heads * fan_out, bias=False)
        self.to_source = nn.Parameter(torch.randn(1, heads, fan_out) * 0.1)
        self.to_target = nn.Parameter(torch.randn(1, heads, fan_out) * 0.1)

    def forward(self, x, edges):
        x = self.lin(x).view(-1, self.heads, self.fan_out)
        a = (x * self.to_source).sum(-1), (x * self.to_target).sum(-1)
        return self.propagate(edges, x.size(0), x=x, a=a[0] + a[1]).mean(1)

    def message(self, x_j, a_j, a_i, index, size):
        weights = softmax_of_groups(F.leaky_relu(a_j + a_i, 0.2), index, size)
        return x_j * weights.unsqueeze(-1)


class Neighbours(MessagePassing):
    def __init__(self, fan_in, fan_out, aggregation):
        super().__init__(aggregation)
        self.own, self.others = nn.Linear(fan_in, fan_out), nn.Linear(fan_in, fan_out)

    def forward(self, x, edges):
        return self.own(x) + self.others(self.propagate(edges, len(x), x=x))


class Network(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.first, self.second = make(6, 8), make(8, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, x, edges, batch, graphs):
        x = F.elu(self.first(x, edges))
        x = self.second(x, edges)
        return self.head(scatter(x, batch, graphs, "mean"))


def graphs(count):
    """Several graphs as one, as a loader joins them."""
    random = torch.Generator().manual_seed(count)
    xs, edges, batch, before = [], [], [], 0
    for graph in range(count):
        nodes = int(torch.randint(4, 9, (), generator=random))
        xs.append(torch.randn(nodes, 6, generator=random))
        edges.append(torch.randint(0, nodes, (2, 3 * nodes), generator=random) + before)
        batch.append(torch.full((nodes,), graph))
        before += nodes
    return torch.cat(xs), torch.cat(edges, dim=1), torch.cat(batch), count


def training(make, optimize):
    torch.manual_seed(0)
    model = Network(make)
    compiled = optimize(model)
    sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for count in (3, 4, 5, 3, 6, 4):
        x, edges, batch, number = graphs(count)
        sgd.zero_grad()
        loss = F.cross_entropy(compiled(x, edges, batch, number), torch.arange(count) % 3)
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    return losses, model.state_dict()


def convolution(optimize):
    return training(Convolution, optimize)


def attention(optimize):
    return training(GraphAttention, optimize)


def mean_of_neighbours(optimize):
    return training(lambda a, b: Neighbours(a, b, "mean"), optimize)


def largest_of_neighbours(optimize):
    return training(lambda a, b: Neighbours(a, b, "max"), optimize)


PROGRAMS = [convolution, attention, mean_of_neighbours, largest_of_neighbours]

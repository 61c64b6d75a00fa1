"""Objects that one cached function holds are arguments of another: a text is read once, and worked out once for each shape."""

from __future__ import annotations

import functools

import pytest

import cdynamo

torch = pytest.importorskip("torch")


class Recipe:
    def __init__(self, text):
        self.names = text.split()


@functools.lru_cache(256)
def recipe_of(text):
    return Recipe(text)


@functools.lru_cache(1024)
def places_of(recipe, shape):
    if len(shape) != len(recipe.names):
        raise ValueError(f"{len(recipe.names)} names for {len(shape)} dims")
    places = sorted(range(len(shape)), key=lambda i: recipe.names[i])
    return places, {name: size for name, size in zip(recipe.names, shape)}


def sorted_dims(x, text):
    places, sizes = places_of(recipe_of(text), tuple(x.shape))
    return x.permute(places) * sizes["a"]


@pytest.fixture(autouse=True)
def empty():
    recipe_of.cache_clear(), places_of.cache_clear()


def test_one_graph_and_the_same_counts():
    x = torch.arange(6.0).reshape(2, 3)
    outcomes = []
    for run in (sorted_dims, cdynamo.optimize(sorted_dims, fullgraph=True)):
        recipe_of.cache_clear(), places_of.cache_clear()
        results = [run(x, "b a").tolist() for _ in range(3)] + [run(x, "a b").tolist()]
        outcomes.append((results, recipe_of.cache_info(), places_of.cache_info()))
    assert outcomes[0] == outcomes[1]


def test_another_object_under_the_same_key():
    compiled = cdynamo.optimize(sorted_dims)
    x = torch.arange(6.0).reshape(2, 3)
    for _ in range(3):
        assert torch.equal(compiled(x, "b a"), sorted_dims(x, "b a"))
        recipe_of.cache_clear()


def test_shapes_that_change():
    compiled = cdynamo.optimize(sorted_dims)
    for size in (2, 3, 5):
        x = torch.randn(size, 3)
        assert torch.equal(compiled(x, "b a"), sorted_dims(x, "b a"))


def test_what_the_function_raises():
    for run in (sorted_dims, cdynamo.optimize(sorted_dims)):
        with pytest.raises(ValueError, match="1 names for 2 dims"):
            run(torch.ones(2, 2), "a")

"""torch operators whose results have sizes that depend on data: see symbolic/tensors/nonzero.h."""

import torch

from cdynamo.polyfills.rules import nonzero_columns, not_captured, required


def nonzero(input, *, as_tuple=False):
    columns = nonzero_columns(input)
    return columns if as_tuple else coordinates(columns)


def coordinates(columns):
    """(count, dims), with eager's strides: of nothing they are others."""
    required(columns[0].shape[0] > 0)
    return torch.stack(columns, 0).t()


def where_true(condition):
    return nonzero_columns(condition)


def one_hot_of_all(input):
    if input.numel() == 0:
        not_captured("one_hot of nothing")
    if input.dtype != torch.int64:
        not_captured("one_hot of other than int64")
    if input.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    zeros = torch.zeros(*input.shape, int(input.max()) + 1, dtype=torch.int64, device=input.device)
    return zeros.scatter(-1, input.unsqueeze(-1), 1)


def argwhere(input):
    return coordinates(nonzero_columns(input))


def masked_select(input, mask):
    if mask.dtype != torch.bool:
        not_captured("masked_select with a mask of other than bools")
    input, mask = torch.broadcast_tensors(input, mask)
    return input[mask]


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """Sorted in any case, as eager's are."""
    if dim is None:
        rows = input.detach().reshape(-1)
        values, order = torch.sort(rows)
    else:
        rows, dim = rows_along(input, dim)
        order = sorted_rows(rows)
        values = rows[order]
    starts = first_of_runs(values)
    results = (back_along(values[starts], input, dim),)
    if return_inverse:
        ranks = torch.cumsum(starts, 0) - 1
        inverse = torch.zeros_like(order).scatter(0, order, ranks)
        results += (inverse.reshape(input.shape) if dim is None else inverse,)
    if return_counts:
        results += (lengths_of_runs(starts),)
    return results if len(results) > 1 else results[0]


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    if dim is None:
        rows = input.detach().reshape(-1)
    else:
        rows, dim = rows_along(input, dim)
    starts = first_of_runs(rows)
    results = (back_along(rows[starts], input, dim),)
    if return_inverse:
        inverse = torch.cumsum(starts, 0) - 1
        results += (inverse.reshape(input.shape) if dim is None else inverse,)
    if return_counts:
        results += (lengths_of_runs(starts),)
    return results if len(results) > 1 else results[0]


MOST_COLUMNS = 16


def rows_along(input, dim):
    """(count, columns), and the dimension as a number that is not negative."""
    dim = dim + input.dim() if dim < 0 else dim
    if input.dim() == 0 or input.numel() == 0:
        not_captured("unique of nothing")
    rows = input.detach().movedim(dim, 0)
    return rows.reshape(rows.shape[0], -1), dim


def back_along(rows, input, dim):
    if dim is None:
        return rows
    others = [size for i, size in enumerate(input.shape) if i != dim]
    return rows.reshape(rows.shape[0], *others).movedim(0, dim)


def sorted_rows(rows):
    """The order of the rows as texts of their elements."""
    if rows.shape[1] > MOST_COLUMNS:
        not_captured("unique of rows of many elements")
    order = torch.arange(rows.shape[0], device=rows.device)
    for column in reversed(range(rows.shape[1])):
        order = order[torch.sort(rows[order, column], stable=True).indices]
    return order


def first_of_runs(values):
    differs = values[1:] != values[:-1]
    if differs.dim() > 1:
        differs = differs.any(1)
    return torch.cat((torch.ones(1, dtype=torch.bool, device=values.device), differs))


def lengths_of_runs(starts):
    (places,) = nonzero_columns(starts)
    return torch.cat((places[1:], torch.full((1,), starts.shape[0], device=starts.device))) - places


REPEATS_DTYPES = (torch.int32, torch.int64)


def repeat_interleave(input, repeats=None, dim=None, *, output_size=None):
    """With a tensor of counts: marks where the runs begin, and the number of marks so far, say what stands where."""
    counts = input if repeats is None else repeats
    if counts.dtype not in REPEATS_DTYPES or counts.dim() > 1:
        not_captured("repeat_interleave with these counts")
    if repeats is not None:
        if dim is None:
            input, dim = input.reshape(-1), 0
        if counts.dim() == 0 or (counts.shape[0] == 1 and input.shape[dim] != 1):
            counts = counts.reshape(1).expand(input.shape[dim])
        if counts.shape[0] != input.shape[dim]:
            not_captured("repeat_interleave with another number of counts than elements")
    elif counts.dim() != 1:
        not_captured("repeat_interleave of counts in several dimensions")
    if counts.shape[0] == 0:
        not_captured("repeat_interleave of nothing")
    if not required(counts.min().item() >= 0):
        not_captured("repeat_interleave with negative counts")
    ends = torch.cumsum(counts.to(torch.int64), 0)
    total = ends[-1].item()
    if output_size is not None and not required(total == output_size):
        not_captured("repeat_interleave with this output_size")
    marks = torch.zeros(total + 1, dtype=torch.int64, device=counts.device)
    index = torch.cumsum(marks.scatter_add(0, ends - counts, torch.ones_like(ends)), 0)[:total] - 1
    return index.to(counts.dtype) if repeats is None else input.index_select(dim, index)


def assert_async(input, assert_msg=None):
    """torch._assert_async() on the CPU, where it raises at once."""
    if input.device.type != "cpu" or input.numel() != 1 or not required((input != 0).item()):
        not_captured("_assert_async() of what is no number on the CPU")


def equal(input, other):
    if input.shape != other.shape:
        return False
    if input.dtype != other.dtype or input.device != other.device:
        not_captured("equal of tensors of two kinds")
    return (input == other).all().item()


MOST_TESTED = 64
TESTED_DTYPES = (torch.int64, torch.int32, torch.float32, torch.float64)


def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """Of few elements that are looked for: each with each."""
    if not isinstance(elements, torch.Tensor) or elements.dtype not in TESTED_DTYPES:
        not_captured("isin of these operands")
    if type(test_elements) in (int, float):
        found = elements == test_elements
    else:
        if not isinstance(test_elements, torch.Tensor) or test_elements.dtype != elements.dtype:
            not_captured("isin of these operands")
        if test_elements.numel() > MOST_TESTED or elements.device != test_elements.device:
            not_captured("isin of many elements")
        found = (elements.unsqueeze(-1) == test_elements.reshape(-1)).any(-1)
    return ~found if invert else found


def is_all_true(input):
    return input.all()


def is_any_true(input):
    return input.any()


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    return torch.isclose(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan).all().item()


def multinomial(input, num_samples, replacement=False, *, generator=None):
    """The largest of probabilities over exponential random numbers, where that is what eager does."""
    if not input.is_floating_point() or input.device.type != "cpu":
        not_captured("multinomial of this kind")
    if not 0 < input.dim() <= 2 or input.numel() == 0:
        not_captured("multinomial of this kind")
    if replacement and num_samples > 1:
        return torch.ops.aten.multinomial(input.detach(), num_samples, True, generator=generator)
    if not 0 < num_samples <= input.shape[-1] or input.shape[-1] > 2**24:
        not_captured("multinomial of this kind")
    input = input.detach()
    valid = (input.max() < float("inf")) & (input.min() >= 0)
    if not required((valid & (input.sum(-1) != 0).all()).item()):
        not_captured("multinomial of what are no probabilities")
    chances = input / torch.empty_like(input).exponential_(generator=generator)
    if num_samples == 1:
        return chances.argmax(dim=-1, keepdim=True)
    return torch.topk(chances, num_samples).indices


BINCOUNT_DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def bincount(input, weights=None, minlength=0):
    if input.dim() != 1 or input.shape[0] == 0 or input.dtype not in BINCOUNT_DTYPES or minlength < 0:
        not_captured("bincount of this tensor")
    if weights is not None and weights.shape != input.shape:
        not_captured("bincount with weights of another shape")
    if not required(input.min().item() >= 0):
        not_captured("bincount of negative ints")
    size = max(input.max().item() + 1, minlength)
    if weights is None:
        weights = torch.ones_like(input, dtype=torch.int64)
    elif weights.dtype != torch.float32:
        weights = weights.to(torch.float64)
    return torch.zeros(size, dtype=weights.dtype, device=input.device).scatter_add(0, input.to(torch.int64), weights)


def check_is_size(i, message=None, *, max=None):
    torch._check(i >= 0)
    if max is not None:
        torch._check(i <= max)

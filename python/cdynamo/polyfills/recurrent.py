"""Recurrent cells and layers of torch, step by step; the products with the inputs are one for the whole sequence."""

import torch

from cdynamo.polyfills.rules import not_captured, packed_recurrence, required

# A layer is unrolled: its graph grows with the sequence.
_MOST_STEPS = 256


def _linear(x, weight, bias):
    return torch._C._nn.linear(x, weight, bias)


def _lstm_step(gates, state):
    _, cell = state
    i, f, g, o = gates.chunk(4, -1)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def _gru_step(from_input, from_hidden, hidden):
    input_r, input_z, input_n = from_input.chunk(3, -1)
    hidden_r, hidden_z, hidden_n = from_hidden.chunk(3, -1)
    reset = torch.sigmoid(input_r + hidden_r)
    update = torch.sigmoid(input_z + hidden_z)
    new = torch.tanh(input_n + reset * hidden_n)
    return (hidden - new) * update + new


# ---- cells: (projected input, state, hidden weight, hidden bias) -> state ------------------------------------------


def _lstm(projected, state, weight, bias):
    return _lstm_step(projected + _linear(state[0], weight, bias), state)


def _projected_lstm(projected, state, weight, bias, projection):
    hidden, cell = _lstm(projected, state, weight, bias)
    return _linear(hidden, projection, None), cell


def _gru(projected, state, weight, bias):
    return (_gru_step(projected, _linear(state[0], weight, bias), state[0]),)


def _rnn_tanh(projected, state, weight, bias):
    return (torch.tanh(projected + _linear(state[0], weight, bias)),)


def _rnn_relu(projected, state, weight, bias):
    return (torch.relu(projected + _linear(state[0], weight, bias)),)


def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return _lstm(_linear(input, w_ih, b_ih), tuple(hx), w_hh, b_hh)


def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return _gru(_linear(input, w_ih, b_ih), (hx,), w_hh, b_hh)[0]


def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return _rnn_tanh(_linear(input, w_ih, b_ih), (hx,), w_hh, b_hh)[0]


def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return _rnn_relu(_linear(input, w_ih, b_ih), (hx,), w_hh, b_hh)[0]


# ---- layers --------------------------------------------------------------------------------------------------------


def _direction(step, x, state, weights, has_biases, backwards):
    """The outputs in the order of time, and the last state."""
    w_ih, w_hh, b_ih, b_hh, *more = weights if has_biases else (*weights[:2], None, None, *weights[2:])
    projected = _linear(x, w_ih, b_ih)
    steps = range(x.shape[0])
    outputs = []
    for t in reversed(steps) if backwards else steps:
        state = step(projected[t], state, w_hh, b_hh, *more)
        outputs.append(state[0])
    return torch.stack(outputs[::-1] if backwards else outputs), state


def _layers(step, x, states, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    directions = 2 if bidirectional else 1
    per = (4 if has_biases else 2) + (step is _projected_lstm)
    if len(params) != per * directions * num_layers:
        not_captured("a recurrent layer with another number of weights")
    if x.dim() != 3 or x.shape[1 if batch_first else 0] * num_layers * directions > _MOST_STEPS:
        not_captured("a recurrent layer over so long a sequence")
    x = x.transpose(0, 1) if batch_first else x
    last = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            k = layer * directions + direction
            out, state = _direction(
                step, x, tuple(s[k] for s in states), params[k * per : (k + 1) * per], has_biases, direction == 1
            )
            outputs.append(out)
            last.append(state)
        x = torch.cat(outputs, -1) if bidirectional else outputs[0]
        if dropout and train and layer < num_layers - 1:
            x = torch.dropout(x, dropout, train)
    return x.transpose(0, 1) if batch_first else x, tuple(torch.stack(parts) for parts in zip(*last))


def weights_have_changed(self):
    """Of nn.RNNBase, without its weak references."""
    return any(
        weight is not getattr(self, name, None) for weight, name in zip(self._flat_weights, self._flat_weights_names)
    )


def check_hidden_size(self, hx, expected_hidden_size, msg="Expected hidden size {}, got {}"):
    """Of nn.RNNBase, one size after the other: those that the graph reads are taken to be equal."""
    sizes = hx.size()
    if len(sizes) != len(expected_hidden_size):
        raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))
    for size, expected in zip(sizes, expected_hidden_size):
        if size != expected:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))


def lstm(input, hx, params, *more):
    if isinstance(hx, torch.Tensor):
        return _packed("lstm", input, hx, tuple(params), *more)
    step = _lstm if hx[0].shape[-1] == hx[1].shape[-1] else _projected_lstm
    output, (hidden, cell) = _layers(step, input, tuple(hx), params, *more)
    return output, hidden, cell


def _single_state(name, step, input, hx, params, *more):
    if isinstance(params, torch.Tensor):
        return _packed(name, input, hx, (params,), *more)
    output, (hidden,) = _layers(step, input, (hx,), params, *more)
    return output, hidden


def gru(input, hx, params, *more):
    return _single_state("gru", _gru, input, hx, params, *more)


def rnn_tanh(input, hx, params, *more):
    return _single_state("rnn_tanh", _rnn_tanh, input, hx, params, *more)


def rnn_relu(input, hx, params, *more):
    return _single_state("rnn_relu", _rnn_relu, input, hx, params, *more)


# ---- packed sequences ----------------------------------------------------------------------------------------------


def _packed(name, data, batch_sizes, states, weights, has_biases, num_layers, dropout, train, bidirectional):
    """One call of the library: how many steps there are, only the graph knows."""
    if dropout and train and num_layers > 1:
        not_captured("dropout between layers over a packed sequence")
    output = data.new_empty(data.shape[0], states[0].shape[-1] * (2 if bidirectional else 1))
    sizes = tuple([tuple(weight.shape) for weight in weights])
    options = (has_biases, num_layers, dropout, train, bidirectional)
    all_weights = torch.cat([weight.reshape(-1) for weight in weights])
    return packed_recurrence(name, sizes, options, (data, batch_sizes, *states, all_weights), (output, *states))


def pack_padded_sequence(input, lengths, batch_first):
    """What is there of each step, one step after the other, and how many sequences it is of."""
    steps_first = input.transpose(0, 1) if batch_first else input
    if lengths.device.type != "cpu" or lengths.dim() != 1 or lengths.dtype != torch.int64:
        not_captured("_pack_padded_sequence with such lengths")
    if input.dim() < 2 or input.numel() == 0 or lengths.shape[0] != steps_first.shape[1]:
        not_captured("_pack_padded_sequence with such lengths")
    fit = (lengths[-1] > 0) & (lengths[:-1] >= lengths[1:]).all() & (lengths[0] <= steps_first.shape[0])
    if not required(fit.item()):
        not_captured("_pack_padded_sequence with lengths that do not fit, or are not sorted")
    is_there = torch.arange(steps_first.shape[0])[:, None] < lengths
    return steps_first[is_there.to(input.device)], is_there.sum(1)[: lengths[0].item()]


def pad_packed_sequence(data, batch_sizes, batch_first, padding_value, total_length):
    if batch_sizes.dim() != 1:
        not_captured("_pad_packed_sequence with such batch sizes")
    batch, steps = batch_sizes[0].item(), batch_sizes.shape[0]
    step = torch.arange(steps if total_length == -1 else total_length)
    sizes = torch.where(step < steps, batch_sizes[step.clamp(max=steps - 1)], 0)
    is_there = torch.arange(batch) < sizes[:, None]
    places = (is_there.reshape(-1).cumsum(0) - 1).reshape(is_there.shape)
    selected = is_there.reshape(is_there.shape + (1,) * (data.dim() - 1)).to(data.device)
    padded = torch.where(selected, data[places.to(data.device)], padding_value)
    return padded.transpose(0, 1) if batch_first else padded, is_there.sum(0)

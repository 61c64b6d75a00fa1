"""Recurrent cells and layers of torch, step by step; the products with the inputs are one for the whole sequence."""

import torch

from cdynamo.polyfills.rules import not_captured

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
    w_ih, w_hh, b_ih, b_hh = weights if has_biases else (*weights, None, None)
    projected = _linear(x, w_ih, b_ih)
    steps = range(x.shape[0])
    outputs = []
    for t in reversed(steps) if backwards else steps:
        state = step(projected[t], state, w_hh, b_hh)
        outputs.append(state[0])
    return torch.stack(outputs[::-1] if backwards else outputs), state


def _layers(step, x, states, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    per, directions = 4 if has_biases else 2, 2 if bidirectional else 1
    if len(params) != per * directions * num_layers:
        not_captured("a recurrent layer with a projection")
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


def lstm(input, hx, params, *more):
    if isinstance(hx, torch.Tensor):
        not_captured("a packed sequence")
    output, (hidden, cell) = _layers(_lstm, input, tuple(hx), params, *more)
    return output, hidden, cell


def _single_state(step, input, hx, params, *more):
    if isinstance(params, torch.Tensor):
        not_captured("a packed sequence")
    output, (hidden,) = _layers(step, input, (hx,), params, *more)
    return output, hidden


def gru(input, hx, params, *more):
    return _single_state(_gru, input, hx, params, *more)


def rnn_tanh(input, hx, params, *more):
    return _single_state(_rnn_tanh, input, hx, params, *more)


def rnn_relu(input, hx, params, *more):
    return _single_state(_rnn_relu, input, hx, params, *more)

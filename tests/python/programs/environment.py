"""Reinforcement learning with an environment in NumPy: rollouts, advantages, a policy's update, and a replay buffer with
a target network."""

from __future__ import annotations

import collections
import random
import typing

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F


class CartPole:
    """A pole on a cart: the equations of motion of the classic control problem, by Euler's rule."""

    gravity, cart, pole, length, force, tau = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
    angle_limit, place_limit = 12 * 2 * np.pi / 360, 2.4

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)

    def reset(self):
        self.state = self.random.uniform(-0.05, 0.05, size=4)
        self.steps = 0
        return self.state.astype(np.float32)

    def step(self, action):
        x, speed, angle, turn = self.state
        force = self.force if action == 1 else -self.force
        cos, sin = np.cos(angle), np.sin(angle)
        total, moment = self.cart + self.pole, self.pole * self.length
        push = (force + moment * turn**2 * sin) / total
        turned = (self.gravity * sin - cos * push) / (self.length * (4.0 / 3.0 - self.pole * cos**2 / total))
        moved = push - moment * turned * cos / total
        self.state = self.state + self.tau * np.array([speed, moved, turn, turned])
        self.steps += 1
        done = bool(abs(self.state[0]) > self.place_limit or abs(self.state[2]) > self.angle_limit or self.steps >= 30)
        return self.state.astype(np.float32), 1.0, done


class ActorCritic(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, width), nn.Tanh())
        self.actor, self.critic = nn.Linear(width, 2), nn.Linear(width, 1)

    def forward(self, state):
        h = self.body(state)
        return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


class Transition(typing.NamedTuple):
    state: np.ndarray
    action: int
    reward: float
    following: np.ndarray
    done: bool


def advantages_of(rewards, values, dones, last, discount=0.99, trace=0.95):
    advantages, carried = np.zeros_like(rewards), 0.0
    for t in reversed(range(len(rewards))):
        following = last if t == len(rewards) - 1 else values[t + 1]
        goes_on = 1.0 - dones[t]
        error = rewards[t] + discount * following * goes_on - values[t]
        carried = error + discount * trace * goes_on * carried
        advantages[t] = carried
    return advantages, advantages + values


def policy_gradient(optimize):
    torch.manual_seed(0)
    model, environment = ActorCritic(), CartPole()
    adam = torch.optim.Adam(model.parameters(), lr=3e-3)

    @optimize
    def act(state):
        policy, value = model(torch.as_tensor(state))
        action = policy.sample()
        return action.item(), policy.log_prob(action), value

    @optimize
    def update(states, actions, before, advantages, returns):
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        policy, values = model(states)
        ratio = (policy.log_prob(actions) - before).exp()
        clipped = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
        return -clipped.mean() + 0.5 * F.mse_loss(values, returns) - 0.01 * policy.entropy().mean()

    gains = optimize(advantages_of)
    history = []
    for _ in range(3):
        state, rows = environment.reset(), []
        for _ in range(12):
            with torch.no_grad():
                action, log, value = act(state)
            following, reward, done = environment.step(action)
            rows.append((state, action, log.item(), value.item(), reward, float(done)))
            state = environment.reset() if done else following
        states, actions, logs, values, rewards, dones = (np.asarray(column, np.float32) for column in zip(*rows))
        with torch.no_grad():
            last = model(torch.from_numpy(state))[1].item()
        advantages, returns = gains(rewards, values, dones, last)
        batch = [torch.from_numpy(part) for part in (states, actions, logs, advantages, returns)]
        for _ in range(2):
            loss = update(*batch)
            adam.zero_grad()
            loss.backward()
            adam.step()
        history.append((loss.item(), advantages.sum().item()))
    return history, model.state_dict()


class Replay:
    def __init__(self, size):
        self.rows = collections.deque(maxlen=size)

    def __len__(self):
        return len(self.rows)

    def add(self, *row):
        self.rows.append(Transition(*row))

    def sample(self, count, chooser):
        picked = Transition(*zip(*chooser.sample(list(self.rows), count)))
        return [torch.as_tensor(np.asarray(column)) for column in picked]


def q_learning(optimize):
    torch.manual_seed(0)
    chooser = random.Random(0)
    environment, replay = CartPole(1), Replay(64)
    online = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
    target = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.AdamW(online.parameters(), lr=1e-3)

    @optimize
    def greedy(state):
        with torch.no_grad():
            return int(online(torch.from_numpy(state)).argmax())

    @optimize
    def loss_of(states, actions, rewards, following, dones):
        values = online(states).gather(1, actions[:, None]).squeeze(1)
        with torch.no_grad():
            best = target(following).max(1).values
            wanted = rewards.float() + 0.99 * best * (~dones)
        return F.smooth_l1_loss(values, wanted)

    losses, state = [], environment.reset()
    for step in range(60):
        explores = chooser.random() < max(0.1, 0.9 - step / 60)
        action = chooser.randrange(2) if explores else greedy(state)
        following, reward, done = environment.step(action)
        replay.add(state, action, reward, following, done)
        state = environment.reset() if done else following
        if len(replay) < 16:
            continue
        loss = loss_of(*replay.sample(16, chooser))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(online.parameters(), 100)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), online.parameters()):
                slow.lerp_(fast, 0.05)
        losses.append(loss.item())
    return losses, target.state_dict()


def many_environments_at_once(optimize):
    """The physics of a batch, compiled too."""
    torch.manual_seed(0)
    model = ActorCritic()
    states = np.random.default_rng(0).uniform(-0.05, 0.05, size=(8, 4))

    @optimize
    def step(states, actions):
        x, speed, angle, turn = states.T
        force = np.where(actions == 1, CartPole.force, -CartPole.force)
        cos, sin = np.cos(angle), np.sin(angle)
        push = (force + 0.05 * turn**2 * sin) / 1.1
        turned = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
        moved = push - 0.05 * turned * cos / 1.1
        states = states + 0.02 * np.stack([speed, moved, turn, turned], axis=1)
        done = (np.abs(states[:, 0]) > 2.4) | (np.abs(states[:, 2]) > CartPole.angle_limit)
        states[done] = 0.0
        return states, done

    @optimize
    def act(states):
        policy, value = model(torch.from_numpy(states).float())
        return policy.sample().numpy(), value.numpy()

    total, ends = np.zeros(8), 0
    with torch.no_grad():
        for _ in range(20):
            actions, values = act(states)
            states, done = step(states, actions)
            total += values
            ends += int(done.sum())
    return states, total, ends


PROGRAMS = [policy_gradient, q_learning, many_environments_at_once]

"""A trainer: arguments, callbacks, a collator, gradient accumulation and clipping, a schedule, an average of the weights,
evaluation with metrics, checkpoints."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections import defaultdict

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


@dataclasses.dataclass
class Arguments:
    steps: int = 20
    batch: int = 4
    rate: float = 3e-3
    warmup: int = 4
    accumulation: int = 2
    clip: float = 1.0
    log_every: int = 5
    smoothing: float = 0.1


class Texts(Dataset):
    """Sequences of several lengths, and which of three patterns each follows."""

    def __init__(self, count=48):
        random = np.random.default_rng(0)
        self.items = []
        for _ in range(count):
            label = int(random.integers(3))
            length = int(random.integers(4, 9))
            self.items.append({"ids": (random.integers(1, 10, length) * (label + 1)).tolist(), "label": label})

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def collate(items):
    longest = max(len(item["ids"]) for item in items)
    ids = torch.zeros(len(items), longest, dtype=torch.long)
    for row, item in zip(ids, items):
        row[: len(item["ids"])] = torch.tensor(item["ids"])
    return {"ids": ids, "mask": ids != 0, "labels": torch.tensor([item["label"] for item in items])}


class Classifier(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.embed = nn.Embedding(40, 16, padding_idx=0)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=dropout, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 3)

    def forward(self, ids, mask, labels=None, smoothing=0.0):
        x = self.encoder(self.embed(ids), src_key_padding_mask=~mask)
        pooled = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        logits = self.head(pooled)
        result = {"logits": logits}
        if labels is not None:
            result["loss"] = F.cross_entropy(logits, labels, label_smoothing=smoothing)
        return result


class Callback:
    def on_step(self, trainer):
        pass

    def on_log(self, trainer, logs):
        pass


class History(Callback):
    def __init__(self):
        self.records = defaultdict(list)

    def on_log(self, trainer, logs):
        for name, value in logs.items():
            self.records[name].append(value)


class Average(Callback):
    def __init__(self, model, decay=0.9):
        self.decay = decay
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def on_step(self, trainer):
        for name, p in trainer.model.named_parameters():
            self.shadow[name].lerp_(p, 1 - self.decay)


class Trainer:
    def __init__(self, model, arguments, data, callbacks, optimize):
        self.model, self.arguments, self.data, self.callbacks = model, arguments, data, callbacks
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.rate, weight_decay=0.01)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.factor)
        self.forward = optimize(model)
        self.step, self.running = 0, 0.0

    def factor(self, step):
        arguments = self.arguments
        if step < arguments.warmup:
            return step / max(1, arguments.warmup)
        share = (step - arguments.warmup) / max(1, arguments.steps - arguments.warmup)
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * share)))

    def batches(self):
        while True:
            yield from DataLoader(self.data, self.arguments.batch, collate_fn=collate)

    def train(self):
        self.model.train()
        batches = self.batches()
        while self.step < self.arguments.steps:
            for _ in range(self.arguments.accumulation):
                loss = self.forward(**next(batches), smoothing=self.arguments.smoothing)["loss"]
                (loss / self.arguments.accumulation).backward()
                self.running += loss.detach().item()
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.arguments.clip)
            self.optimizer.step()
            self.scheduler.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.step += 1
            for callback in self.callbacks:
                callback.on_step(self)
            if self.step % self.arguments.log_every == 0:
                logs = {"loss": self.running, "norm": norm.item(), "rate": self.scheduler.get_last_lr()[0]}
                logs.update(self.evaluate())
                for callback in self.callbacks:
                    callback.on_log(self, logs)
                self.running = 0.0

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        right = count = 0
        for batch in DataLoader(self.data, 16, collate_fn=collate):
            predicted = self.forward(batch["ids"], batch["mask"])["logits"].argmax(-1).numpy()
            right += int((predicted == batch["labels"].numpy()).sum())
            count += len(predicted)
        self.model.train()
        return {"accuracy": right / count}


def trained(optimize, dropout):
    torch.manual_seed(0)
    model = Classifier(dropout).double()  # Adam makes steps of what is rounding where a gradient is zero
    history, average = History(), Average(model)
    trainer = Trainer(model, Arguments(), Texts(), [history, average], optimize)
    torch.manual_seed(1)
    trainer.train()
    return dict(history.records), average.shadow, model.state_dict()


def twenty_steps(optimize):
    return trained(optimize, 0.0)


def twenty_steps_with_dropout(optimize):
    return trained(optimize, 0.1)


def going_on_from_a_checkpoint(optimize):
    torch.manual_seed(0)
    model = Classifier().double()
    trainer = Trainer(model, Arguments(steps=4), Texts(), [], optimize)
    trainer.train()
    saved = copy.deepcopy((model.state_dict(), trainer.optimizer.state_dict(), trainer.scheduler.state_dict()))
    other = Classifier().double()
    again = Trainer(other, Arguments(steps=8), Texts(), [], optimize)
    for part, state in zip((other, again.optimizer, again.scheduler), saved):
        part.load_state_dict(state)
    again.step = 4
    again.train()
    return again.running, other.state_dict()


PROGRAMS = [twenty_steps, twenty_steps_with_dropout, going_on_from_a_checkpoint]

"""The training steps of jax_steps.py in PyTorch, with the same sizes: step(NAME, QUICK) gives a module and its data; the module's
result is the loss."""

import torch
from torch import nn
from torch.nn import functional as f

from models.sizes import SIZES


class Encoder(nn.Module):
    def __init__(self, s, causal):
        super().__init__()
        width, self.heads, self.causal = s["width"], s["heads"], causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        split = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in split)
        y = f.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(f.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.tokens = nn.Embedding(s["vocabulary"], s["width"])
        self.positions = nn.Parameter(torch.randn(s["positions"], s["width"]) * 0.05)
        self.blocks, self.norm = nn.Sequential(*[Encoder(s, True) for _ in range(s["layers"])]), nn.LayerNorm(s["width"])

    def forward(self, tokens):
        x = self.norm(self.blocks(self.tokens(tokens[:, :-1]) + self.positions))
        return f.cross_entropy((x @ self.tokens.weight.T).flatten(0, 1), tokens[:, 1:].flatten())


def rotated(x):
    """Rotary positions of [batch, heads, positions, width of a head]."""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[2])[:, None] / 10000 ** (torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


class LlamaBlock(nn.Module):
    def __init__(self, s):
        super().__init__()
        width, hidden, self.heads, self.groups = s["width"], s["hidden"], s["heads"], s["groups"]
        each = width // self.heads
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.q, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, self.groups * each, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        h = self.norm1(x)
        q = rotated(self.q(h).unflatten(-1, (self.heads, -1)).transpose(1, 2))
        k = rotated(self.k(h).unflatten(-1, (self.groups, -1)).transpose(1, 2))
        v = self.v(h).unflatten(-1, (self.groups, -1)).transpose(1, 2)
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        x = x + self.out(f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        h = self.norm2(x)
        return x + self.down(f.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.tokens, self.head = nn.Embedding(s["vocabulary"], s["width"]), nn.Linear(s["width"], s["vocabulary"], bias=False)
        self.blocks = nn.Sequential(*[LlamaBlock(s) for _ in range(s["layers"])])
        self.norm = nn.RMSNorm(s["width"], eps=1e-5)

    def forward(self, tokens):
        x = self.norm(self.blocks(self.tokens(tokens[:, :-1])))
        return f.cross_entropy(self.head(x).flatten(0, 1), tokens[:, 1:].flatten())


class Vit(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.patch, side = s["patch"], s["image"] // s["patch"]
        self.patches = nn.Linear(self.patch * self.patch * 3, s["width"], bias=False)
        self.positions = nn.Parameter(torch.randn(side * side, s["width"]) * 0.05)
        self.blocks = nn.Sequential(*[Encoder(s, False) for _ in range(s["layers"])])
        self.norm, self.head = nn.LayerNorm(s["width"]), nn.Linear(s["width"], s["classes"], bias=False)

    def forward(self, images, labels):
        x = f.pixel_unshuffle(images, self.patch).flatten(2).transpose(1, 2)
        x = self.norm(self.blocks(self.patches(x) + self.positions))
        return f.cross_entropy(self.head(x.mean(1)), labels)


class Residual(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.first = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.beside = nn.Conv2d(before, width, 1, stride, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x):
        return f.relu(self.norm2(self.second(f.relu(self.norm1(self.first(x))))) + self.beside(x))


class Resnet(nn.Module):
    def __init__(self, s):
        super().__init__()
        widths = [s["width"] << stage for stage in range(s["stages"])]
        self.stem, self.head = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False), nn.Linear(widths[-1], s["classes"], bias=False)
        self.blocks = nn.Sequential(*[Residual(widths[max(i - 1, 0)], w, 2 if i else 1) for i, w in enumerate(widths)])

    def forward(self, images, labels):
        return f.cross_entropy(self.head(self.blocks(self.stem(images)).mean((2, 3))), labels)


MODULES = {"gpt": Gpt, "llama": Llama, "vit": Vit, "resnet": Resnet}


def step(name, quick):
    """(the module, its data)"""
    torch.manual_seed(1)
    s = SIZES[name][quick]
    if name in ("gpt", "llama"):
        data = [torch.randint(0, s["vocabulary"], (s["batch"], s["positions"] + 1))]
    else:
        data = [torch.randn(s["batch"], 3, s["image"], s["image"]) * 0.05, torch.randint(0, s["classes"], (s["batch"],))]
    return MODULES[name](s), data

#!/usr/bin/env python3
"""References for losses, optimisers, metrics and learning-rate schedules: writes tests/training/references.dat.

  training_references.py > tests/training/references.dat      (needs PyTorch and numpy)

What PyTorch has is computed by PyTorch in f64; the rest (Lion, F1, the area under the curve, R2, distillation) by a
transcript of its source in numpy. Inputs are formulas of integers, so that tests/unit/test_training.c makes the same
ones (`element`), with nothing drawn at random; the file holds results alone. A line is

  loss RULE INPUT..  = value, gradient with respect to X
  optimizer RULE lr  = losses of 100 steps, then the parameters
  average RULE lr decay  = loss of the first step, of the 100th, and of its data with the averages
  metric RULE LOSS INPUT..  = value over two batches
  schedule TEXT base total LOSSES  = rates of 100 steps

and an input NAME:KIND:PARAMETER:SIZES.
"""
import warnings
import numpy as np
import torch
import torch.nn.functional as F

warnings.filterwarnings("ignore")


def element(kind, parameter, i, salt):
    mixed = (i * 7919 + salt * 10473) % 1009
    real = mixed / 1009 * 4 - 2
    if kind == "real": return real
    if kind == "probability": return mixed / 1009 * 0.9 + 0.05
    if kind == "zeros": return 0.0
    if kind == "bits": return float((i + salt) % 3 == 0)
    if kind == "labels": return (i * 7 + salt * 3) % parameter
    if kind == "masked": return -100 if i % 4 == 1 else (i * 7 + salt * 3) % parameter
    if kind == "symbols": return 1 + (i * 7 + salt * 3) % (parameter - 1)  # labels but 0
    if kind == "lengths": return parameter - i % 2
    raise ValueError(kind)


def tensor(spec, salt):
    name, kind, parameter, sizes = spec.split(":")
    sizes = [int(s) for s in sizes.split("x")]
    values = [element(kind, int(parameter), i, salt) for i in range(int(np.prod(sizes)))]
    whole = kind in ("labels", "masked", "symbols", "lengths")
    return name, torch.tensor(values, dtype=torch.int64 if whole else torch.float64).reshape(sizes)


def inputs(specs, first=0):
    return dict(tensor(s, first + i) for i, s in enumerate(specs))


def line(what, *rest):
    *head, numbers = rest
    print(what, *head, "=", *("%.15g" % v for v in numbers))


# ---- losses ----
def loss(rule, f, *specs):
    t = inputs(specs)
    x = t["X"].requires_grad_()
    value = f(t)
    value.backward()
    line("loss", rule, *specs, [value.item(), *x.grad.flatten().tolist()])


def distillation(t, temperature, alpha):
    p, q = F.log_softmax(t["X"] / temperature, 1), F.softmax(t["teacher"] / temperature, 1)
    k = F.kl_div(p, q, reduction="none").sum(1).mean()
    return alpha * temperature**2 * k + (1 - alpha) * F.cross_entropy(t["X"], t["target"])


def losses():
    w = torch.tensor([0.5, 2, 1, 0.25, 1.5], dtype=torch.float64)
    text = "weight=0.5/2/1/0.25/1.5"
    rows, maps = ("X:real:0:6x5", "target:labels:5:6"), ("X:real:0:3x5x2x2", "target:masked:5:3x2x2")
    words = ("X:real:0:2x4x5", "target:masked:5:2x4")
    soft = ("X:real:0:6x5", "target:probability:0:6x5")
    ce = lambda **k: lambda t: F.cross_entropy(t["X"], t["target"], **k)
    last = lambda **k: lambda t: F.cross_entropy(t["X"].transpose(1, 2), t["target"], **k)
    loss("cross_entropy", ce(), *rows)
    loss("cross_entropy", ce(), *maps)
    loss("cross_entropy", last(), *words)
    loss("cross_entropy:axis=2", last(), "X:real:0:2x5x5", "target:labels:5:2x5")
    loss("cross_entropy:axis=1", ce(), "X:real:0:2x5x5", "target:labels:5:2x5")
    loss("cross_entropy:reduction=sum", ce(reduction="sum"), *maps)
    loss("cross_entropy:ignore_index=2", ce(ignore_index=2), *rows)
    loss("cross_entropy:" + text, ce(weight=w), *maps)
    loss("cross_entropy:label_smoothing=0.1", ce(label_smoothing=0.1), *rows)
    loss("cross_entropy:label_smoothing=0.2," + text, ce(label_smoothing=0.2, weight=w), *maps)
    loss("cross_entropy:label_smoothing=0.1", last(label_smoothing=0.1), *words)
    loss("cross_entropy", ce(), *soft)
    loss("cross_entropy:label_smoothing=0.1," + text, ce(label_smoothing=0.1, weight=w), *soft)
    loss("cross_entropy:axis=2", last_soft, "X:real:0:2x4x5", "target:probability:0:2x4x5")
    loss("nll", lambda t: F.nll_loss(t["X"], t["target"]), *maps)
    loss("nll:" + text, lambda t: F.nll_loss(t["X"], t["target"], weight=w), *rows)
    pair = ("X:real:0:4x3", "target:real:0:4x3")
    for rule, f in (("mse", F.mse_loss), ("l1", F.l1_loss), ("huber", F.huber_loss), ("smooth_l1", F.smooth_l1_loss)):
        loss(rule, lambda t: f(t["X"], t["target"]), *pair)
        loss(rule + ":reduction=sum", lambda t: f(t["X"], t["target"], reduction="sum"), *pair)
    loss("huber:delta=0.5", lambda t: F.huber_loss(t["X"], t["target"], delta=0.5), *pair)
    loss("smooth_l1:beta=0.5", lambda t: F.smooth_l1_loss(t["X"], t["target"], beta=0.5), *pair)
    loss("bce", lambda t: F.binary_cross_entropy(t["X"], t["target"]), "X:probability:0:4x3", "target:bits:0:4x3")
    logits = lambda **k: lambda t: F.binary_cross_entropy_with_logits(t["X"], t["target"], **k)
    loss("bce_with_logits", logits(), "X:real:0:4x3", "target:probability:0:4x3")
    loss("bce_with_logits", logits(), "X:zeros:0:4x3", "target:bits:0:4x3")
    loss("bce_with_logits:pos_weight=3", logits(pos_weight=torch.tensor(3.0)), "X:real:0:4x3", "target:bits:0:4x3")
    loss("bce_with_logits:pos_weight=3/0.5/1", logits(pos_weight=torch.tensor([3, 0.5, 1])), "X:real:0:4x3",
         "target:bits:0:4x3")
    kl = lambda **k: lambda t: F.kl_div(t["X"], t["target"], **k)
    loss("kl", kl(reduction="batchmean"), "X:real:0:4x3", "target:probability:0:4x3")
    loss("kl:reduction=mean", kl(reduction="mean"), "X:real:0:4x3", "target:bits:0:4x3")
    loss("kl:log_target=1,reduction=sum", kl(log_target=True, reduction="sum"), *pair)
    ctc = lambda **k: lambda t: F.ctc_loss(F.log_softmax(t["X"], 2), t["target"], t["input_lengths"],
                                           t["target_lengths"], **k)
    tail = ("target:symbols:5:3x4", "input_lengths:lengths:9:3", "target_lengths:lengths:4:3")
    loss("ctc", ctc(), "X:real:0:9x3x5", *tail)
    loss("ctc:reduction=sum", ctc(reduction="sum"), "X:real:0:9x3x5", *tail)
    loss("ctc:batch_first=1", lambda t: ctc()({**t, "X": t["X"].transpose(0, 1)}), "X:real:0:3x9x5", *tail)
    loss("ctc", lambda t: F.ctc_loss(F.log_softmax(t["X"], 2), t["target"], (9,) * 3, (4,) * 3), "X:real:0:9x3x5",
         tail[0])
    loss("ctc", lambda t: F.ctc_loss(F.log_softmax(t["X"], 2), t["target"], (9,) * 3, (4,) * 3), "X:real:0:9x3x2",
         "target:symbols:2:3x4")
    loss("ctc:zero_infinity=1", ctc(zero_infinity=True), "X:real:0:6x3x5", "target:symbols:2:3x4",
         "input_lengths:lengths:6:3", "target_lengths:lengths:4:3")
    loss("distillation", lambda t: distillation(t, 2, 0.5), *rows, "teacher:real:0:6x5")
    loss("distillation:temperature=4,alpha=0.9", lambda t: distillation(t, 4, 0.9), *rows, "teacher:real:0:6x5")


def last_soft(t):
    return F.cross_entropy(t["X"].transpose(1, 2), t["target"].transpose(1, 2))


# ---- optimisers ----
class Lion(torch.optim.Optimizer):
    """Chen et al., Symbolic Discovery of Optimization Algorithms (2023), algorithm 2."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    def step(self):
        for g in self.param_groups:
            for p in g["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                c = g["betas"][0] * m + (1 - g["betas"][0]) * p.grad
                p.data -= g["lr"] * (torch.sign(c) + g["weight_decay"] * p.data)
                self.state[p]["m"] = g["betas"][1] * m + (1 - g["betas"][1]) * p.grad


def optimizer(rule, make, lr, **k):
    p = torch.tensor([element("real", 0, i, 1000) for i in range(6)], dtype=torch.float64, requires_grad=True)
    o = make([p], lr=lr, **k)
    values = []
    for step in range(100):
        target = torch.tensor([element("real", 0, i, step) for i in range(6)], dtype=torch.float64)
        o.zero_grad()
        value = F.mse_loss(p, target)
        value.backward()
        o.step()
        values.append(value.item())
    line("optimizer", rule, lr, values + p.tolist())


def optimizers():
    o = torch.optim
    optimizer("sgd", o.SGD, 0.1)
    optimizer("sgd:weight_decay=0.1", o.SGD, 0.1, weight_decay=0.1)
    optimizer("momentum", o.SGD, 0.05, momentum=0.9)
    optimizer("momentum:momentum=0.8,dampening=0.3,weight_decay=0.1", o.SGD, 0.05, momentum=0.8, dampening=0.3,
              weight_decay=0.1)
    optimizer("momentum:nesterov=1,weight_decay=0.01", o.SGD, 0.05, momentum=0.9, nesterov=True, weight_decay=0.01)
    optimizer("adam", o.Adam, 0.01)
    optimizer("adam:beta1=0.8,beta2=0.95,epsilon=1e-3,weight_decay=0.1", o.Adam, 0.05, betas=(0.8, 0.95), eps=1e-3,
              weight_decay=0.1)
    optimizer("adamw", o.AdamW, 0.01)
    optimizer("adamw:weight_decay=0.2,beta1=0.7", o.AdamW, 0.05, weight_decay=0.2, betas=(0.7, 0.999))
    optimizer("rmsprop", o.RMSprop, 0.01)
    optimizer("rmsprop:alpha=0.9,momentum=0.9,weight_decay=0.1", o.RMSprop, 0.01, alpha=0.9, momentum=0.9,
              weight_decay=0.1)
    optimizer("rmsprop:centered=1", o.RMSprop, 0.01, centered=True)
    optimizer("rmsprop:centered=1,momentum=0.5,epsilon=1e-4", o.RMSprop, 0.01, centered=True, momentum=0.5, eps=1e-4)
    optimizer("adagrad", o.Adagrad, 0.1)
    optimizer("adagrad:lr_decay=0.01,weight_decay=0.1,initial_accumulator_value=0.5,epsilon=1e-6", o.Adagrad, 0.1,
              lr_decay=0.01, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-6)
    optimizer("lion", Lion, 0.01)
    optimizer("lion:beta1=0.8,beta2=0.95,weight_decay=0.1", Lion, 0.01, betas=(0.8, 0.95), weight_decay=0.1)


# ---- averages of parameters ----
def average(rule, make, lr, decay):
    p = torch.nn.Module()
    p.x = torch.nn.Parameter(torch.tensor([element("real", 0, i, 1000) for i in range(6)], dtype=torch.float64))
    a = torch.optim.swa_utils.AveragedModel(p, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(decay))
    o = make(p.parameters(), lr=lr)
    values = []
    for step in range(100):
        target = torch.tensor([element("real", 0, i, step) for i in range(6)], dtype=torch.float64)
        o.zero_grad()
        value = F.mse_loss(p.x, target)
        value.backward()
        o.step()
        a.update_parameters(p)
        if step in (0, 99): values.append(value.item())
    line("average", rule, lr, decay, values + [F.mse_loss(a.module.x, target).item()])


def averages():
    average("sgd", torch.optim.SGD, 0.1, 0.9)
    average("adam", torch.optim.Adam, 0.05, 0.99)


# ---- metrics ----
def metric(rule, loss, f, *specs):
    a, b = inputs(specs), inputs(specs, 10)
    both = {k: torch.cat([a[k], b[k]]) for k in a}
    line("metric", rule, loss, *specs, [float(f(both["X"].numpy(), both["target"].numpy()))])


def counted(x, t):
    """predictions of labels that count, and these"""
    return x.argmax(1)[t != -100], t[t != -100]


def f1(p, t, k):
    tp, wrong = np.sum((p == k) & (t == k)), np.sum((p == k) != (t == k))
    return 2 * tp / (2 * tp + wrong)


def macro(p, t):
    return np.mean([f1(p, t, k) for k in np.unique(np.concatenate([p, t]))])


def area(s, t):
    wins = [(a > b) + 0.5 * (a == b) for a in s[t == 1] for b in s[t == 0]]
    return np.mean(wins)


def top(x, t, k):
    best = torch.tensor(x).topk(k, 1).indices.numpy()
    return np.mean([(best[i] == t[i]).any() for i in range(len(t)) if t[i] != -100])


def metrics():
    rows, pair = ("X:real:0:12x5", "target:masked:5:12"), ("X:real:0:8x3", "target:real:0:8x3")
    bits = ("X:real:0:17x1", "target:bits:0:17x1")
    flat = lambda x: x.reshape(-1)
    metric("accuracy", "cross_entropy", lambda x, t: np.mean(np.equal(*counted(x, t))), *rows)
    metric("accuracy", "cross_entropy", lambda x, t: np.mean((x.argmax(2) == t)[t != -100]), "X:real:0:3x4x5",
           "target:masked:5:3x4")
    metric("accuracy", "mse", lambda x, t: np.mean((x > 0) == t), *bits)
    metric("accuracy:threshold=0.5", "mse", lambda x, t: np.mean((x > 0.5) == t), *bits)
    metric("top_k:k=2", "cross_entropy", lambda x, t: top(x, t, 2), *rows)
    metric("f1", "cross_entropy", lambda x, t: macro(*counted(x, t)), *rows)
    metric("f1:average=binary", "mse", lambda x, t: f1(flat(x) > 0, flat(t) == 1, 1), *bits)
    metric("auc", "mse", lambda x, t: area(flat(x), flat(t)), *bits)
    metric("auc:logits=0", "mse", lambda x, t: area(flat(x), flat(t)), "X:probability:0:17x1", bits[1])
    metric("auc", "cross_entropy", lambda x, t: area((x[:, 1] - x[:, 0]).round(9), t), "X:real:0:17x2",
           "target:labels:2:17")
    metric("mse", "mse", lambda x, t: np.mean((x - t)**2), *pair)
    metric("mae", "mse", lambda x, t: np.mean(abs(x - t)), *pair)
    metric("r2", "mse", lambda x, t: 1 - np.sum((x - t)**2) / np.sum((t - t.mean())**2), *pair)
    metric("perplexity", "cross_entropy", lambda x, t: F.cross_entropy(torch.tensor(x), torch.tensor(t)).exp(), *rows)


# ---- schedules ----
def schedule(text, make, base=0.1, losses=()):
    p = torch.nn.Parameter(torch.zeros(1))
    o = torch.optim.SGD([p], lr=base)
    s = make(o)
    rates = []
    for step in range(100):
        rates.append(o.param_groups[0]["lr"])
        o.step()
        if not losses:
            try: s.step()
            except ValueError: break  # one_cycle has an end
        elif step < len(losses): s.step(losses[step])
    line("schedule", text, base, 100, "/".join(map(str, losses)) or "-", rates)


def warm(o, n, then):
    first = torch.optim.lr_scheduler.LambdaLR(o, lambda k: (k + 1) / n)
    return torch.optim.lr_scheduler.SequentialLR(o, [first, then(o)], [n])


def schedules():
    r = torch.optim.lr_scheduler
    schedule("constant", lambda o: r.ConstantLR(o, factor=1))
    schedule("step:step_size=30", lambda o: r.StepLR(o, 30))
    schedule("step:step_size=7,gamma=0.5", lambda o: r.StepLR(o, 7, 0.5))
    schedule("exponential:gamma=0.95", lambda o: r.ExponentialLR(o, 0.95))
    schedule("cosine", lambda o: r.CosineAnnealingLR(o, 100))
    schedule("cosine:eta_min=0.01", lambda o: r.CosineAnnealingLR(o, 100, 0.01))
    schedule("constant:warmup=10", lambda o: r.LambdaLR(o, lambda k: min((k + 1) / 10, 1)))
    schedule("cosine:warmup=20", lambda o: warm(o, 20, lambda o: r.CosineAnnealingLR(o, 80)))
    schedule("step:step_size=15,gamma=0.3,warmup=5", lambda o: warm(o, 5, lambda o: r.StepLR(o, 15, 0.3)))
    schedule("one_cycle", one_cycle)
    schedule("one_cycle:pct_start=0.2,div_factor=10,final_div_factor=100", lambda o: one_cycle(
        o, pct_start=0.2, div_factor=10, final_div_factor=100))
    falling = [1, 0.9, 0.8, 0.81, 0.82, 0.83, 0.79999, 0.85, 0.7, 0.71, 0.72, 0.73, 0.74, 0.75, 0.76, 0.69, 0.7, 0.71,
               0.72, 0.73]
    schedule("plateau:patience=2,factor=0.5", lambda o: r.ReduceLROnPlateau(o, factor=0.5, patience=2), 0.1, falling)
    schedule("plateau:patience=1,cooldown=2,threshold=0.05,min_lr=0.003", lambda o: r.ReduceLROnPlateau(
        o, patience=1, cooldown=2, threshold=0.05, min_lr=0.003), 0.1, falling)


def one_cycle(o, **k):
    return torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=100, cycle_momentum=False, **k)


print("# Written by tests/tools/training_references.py; do not edit. torch %s, numpy %s" %
      (torch.__version__, np.__version__))
losses()
optimizers()
averages()
metrics()
schedules()

"""L-BFGS: a quasi-Newton method over all parameters as one vector, with a line search under the strong Wolfe conditions.

Products of vectors stay tensors without dims, in PyTorch's order: a profile shows PyTorch's ops, and the state has PyTorch's types.
"""

from typing import NamedTuple

import mindtorch_v2 as torch
from .optimizer import Optimizer, check_lr, number


class _Trial(NamedTuple):
    """A point along the line: its step, the loss there, the gradient, and the gradient along the line."""

    t: object
    loss: float
    grad: object
    slope: object


def _cubic_minimum(a, b, bounds=None):
    """The minimum of the cubic through both trials, within the bounds (default: between the trials)."""
    low, high = bounds if bounds is not None else (min(a.t, b.t), max(a.t, b.t))
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = square.sqrt()
    if a.t <= b.t:
        best = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    else:
        best = a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2 * d2))
    return min(max(best, low), high)


class _WolfeSearch:
    """Finds a step that decreases the loss enough (c1) and flattens the slope enough (c2)."""

    def __init__(self, trial, start, reach, limit, c1=1e-4, c2=0.9, tolerance=1e-9):
        self.trial = trial  # t -> _Trial
        self.start = start  # the _Trial at 0
        self.reach = reach  # largest element of the direction
        self.limit, self.c1, self.c2, self.tolerance = limit, c1, c2, tolerance
        self.evaluations = 0

    def run(self, t):
        bracket, done, rounds = self._bracket(t)
        if not done:
            bracket = self._zoom(bracket, rounds)
        return min(bracket, key=lambda p: p.loss)

    def _try(self, t):
        self.evaluations += 1
        return self.trial(t)

    def _too_high(self, p):
        return p.loss > self.start.loss + self.c1 * p.t * self.start.slope

    def _flat(self, p):
        return abs(p.slope) <= -self.c2 * self.start.slope

    def _bracket(self, t):
        """Two trials with a good step between them, or one good trial."""
        last, now = self.start, self._try(t)
        for rounds in range(self.limit):
            if self._too_high(now) or (rounds > 1 and now.loss >= last.loss):
                return [last, now], False, rounds
            if self._flat(now):
                return [now], True, rounds
            if now.slope >= 0:
                return [last, now], False, rounds
            ahead = (now.t + 0.01 * (now.t - last.t), now.t * 10)
            last, now = now, self._try(_cubic_minimum(last, now, ahead))
        return [self.start, now], True, self.limit

    def _zoom(self, bracket, rounds):
        stalled = False
        low = 0 if bracket[0].loss <= bracket[1].loss else 1
        while rounds < self.limit:
            near, far = sorted(p.t for p in bracket)
            if abs(bracket[1].t - bracket[0].t) * self.reach < self.tolerance:
                break
            t, stalled = self._away_from_ends(_cubic_minimum(*bracket), near, far, stalled)
            now = self._try(t)
            rounds += 1
            high = 1 - low
            if self._too_high(now) or now.loss >= bracket[low].loss:
                bracket[high] = now
                low = 0 if bracket[0].loss <= bracket[1].loss else 1
                continue
            done = self._flat(now)
            if not done and now.slope * (bracket[high].t - bracket[low].t) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = now
            if done:
                break
        return [bracket[low]]

    @staticmethod
    def _away_from_ends(t, near, far, stalled):
        """Moves a step that is close to an end of the bracket twice in a row inward by a tenth."""
        margin = 0.1 * (far - near)
        if not min(far - t, t - near) < margin:
            return t, False
        if stalled or t >= far or t <= near:
            return (far - margin if abs(t - far) < abs(t - near) else near + margin), False
        return t, True


class LBFGS(Optimizer):
    def __init__(
        self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9, history_size=100,
        line_search_fn=None,
    ):  # fmt: skip
        check_lr(lr)
        defaults = {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self):
        return self.param_groups[0]["params"]

    def _flat_grad(self):
        flat = lambda g: g.view(-1) if g.is_contiguous() else g.reshape(-1)
        return torch.cat([p.new_zeros(p.numel()) if p.grad is None else flat(p.grad) for p in self._params])

    def _move(self, t, direction):
        at = 0
        for p in self._params:
            p.add_(direction[at : at + p.numel()].view_as(p), alpha=t)
            at += p.numel()

    def step(self, closure):
        """closure() clears the gradients, computes the loss, calls backward() and returns the loss."""
        if len(self.param_groups) != 1:
            raise AssertionError(f"Expected exactly one param_group, but got {len(self.param_groups)}")
        with torch.no_grad():
            return self._minimise(closure)

    def _evaluate(self, closure):
        with torch.enable_grad():
            loss = closure()
        self.state[self._params[0]]["func_evals"] += 1
        return loss, float(loss), self._flat_grad()

    def _minimise(self, closure):
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        evaluated = state["func_evals"]
        first_loss, loss, grad = self._evaluate(closure)
        if grad.abs().max() <= group["tolerance_grad"]:
            return first_loss
        lr = number(group["lr"])
        for left in range(group["max_iter"] - 1, -1, -1):
            state["n_iter"] += 1
            direction = self._direction(state, grad, group["history_size"])
            if "prev_flat_grad" in state:
                state["prev_flat_grad"].copy_(grad)
            else:
                state["prev_flat_grad"] = grad.clone()
            state["prev_loss"] = loss
            t = min(1.0, 1.0 / grad.abs().sum()) * lr if state["n_iter"] == 1 else lr
            slope = grad.dot(direction)
            state["d"], state["t"] = direction, t
            if slope > -group["tolerance_change"]:
                break
            before = loss
            if group["line_search_fn"] is not None:
                limit = group["max_eval"] - (state["func_evals"] - evaluated)
                loss, grad, t = self._search(closure, group, direction, _Trial(0, loss, grad, slope), t, limit)
                state["t"] = t
                self._move(t, direction)
            else:
                self._move(t, direction)
                if left > 0:  # after the last move, the next call computes the loss
                    _, loss, grad = self._evaluate(closure)
            flat = (left > 0 or group["line_search_fn"] is not None) and bool(grad.abs().max() <= group["tolerance_grad"])
            if (
                left == 0
                or state["func_evals"] - evaluated >= group["max_eval"]
                or flat
                or direction.mul(t).abs().max() <= group["tolerance_change"]
                or abs(loss - before) < group["tolerance_change"]
            ):
                break
        return first_loss

    @staticmethod
    def _direction(state, grad, history_size):
        """The estimated inverse Hessian times -grad, by the two-loop recursion over past steps."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return grad.neg()
        change, move = grad.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
        curvature = change.dot(move)
        changes, moves, ro = state["old_dirs"], state["old_stps"], state["ro"]
        if curvature > 1e-10:
            if len(changes) == history_size:
                for history in (changes, moves, ro):
                    history.pop(0)
            changes.append(change)
            moves.append(move)
            ro.append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change)
        weights = state.setdefault("al", [None] * history_size)
        q = grad.neg()
        for i in range(len(changes) - 1, -1, -1):
            weights[i] = moves[i].dot(q) * ro[i]
            q.add_(changes[i], alpha=-weights[i])
        direction = q.mul(state["H_diag"])
        for i in range(len(changes)):
            direction.add_(moves[i], alpha=weights[i] - changes[i].dot(direction) * ro[i])
        return direction

    def _search(self, closure, group, direction, start, t, limit):
        if group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        saved = [p.clone() for p in self._params]

        def trial(t):
            self._move(t, direction)
            _, loss, grad = self._evaluate(closure)
            for p, value in zip(self._params, saved):
                p.copy_(value)
            return _Trial(t, loss, grad, grad.dot(direction))

        best = _WolfeSearch(trial, start, direction.abs().max(), limit).run(t)
        return best.loss, best.grad, best.t

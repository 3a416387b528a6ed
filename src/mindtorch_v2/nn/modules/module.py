"""Module: the tree that holds parameters, buffers and submodules, their state, and the hooks around forward()."""

import functools
import itertools
from collections import OrderedDict, namedtuple
from collections.abc import Mapping

import mindtorch_v2 as torch
from ..parameter import Buffer, Parameter
from ...utils._record import typename
from ...utils.hooks import BackwardHook, RemovableHandle


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def _indented(text, spaces):
    first, *rest = text.split("\n")
    return "\n".join([first] + [" " * spaces + line for line in rest])


def _missing_forward(self, *input):
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


class Module:
    """Base class of all modules: assign parameters and submodules as attributes, define forward()."""

    training: bool
    _version = 1
    call_super_init = False

    def __init__(self, *args, **kwargs):
        if not self.call_super_init:
            if kwargs:
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'")
            if args:
                raise TypeError(f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given")
        self.__dict__.update(
            training=True, _parameters={}, _buffers={}, _non_persistent_buffers_set=set(), _modules={},
            _backward_pre_hooks=OrderedDict(), _backward_hooks=OrderedDict(), _is_full_backward_hook=None,
            _forward_hooks=OrderedDict(), _forward_hooks_with_kwargs=OrderedDict(),
            _forward_hooks_always_called=OrderedDict(), _forward_pre_hooks=OrderedDict(),
            _forward_pre_hooks_with_kwargs=OrderedDict(), _state_dict_hooks=OrderedDict(),
            _state_dict_pre_hooks=OrderedDict(), _load_state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_post_hooks=OrderedDict(),
        )  # fmt: skip
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward = _missing_forward

    # ------------------------------------------------------------------------------------------- attributes

    def _check_new_name(self, kind, name, table):
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if kind != "module":
            if "." in name:
                raise KeyError(f'{kind} name can\'t contain "."')
            if name == "":
                raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")
        if kind == "module":
            if "." in name:
                raise KeyError(f'module name can\'t contain ".", got: {name}')
            if name == "":
                raise KeyError('module name can\'t be empty string ""')

    def register_buffer(self, name, tensor, persistent=True):
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_new_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, torch.Tensor):
            raise TypeError(f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)")
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name, param):
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_new_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. "
                f"To express '{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        self._parameters[name] = param

    def add_module(self, name, module):
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_new_name("module", name, self._modules)
        self._modules[name] = module

    def register_module(self, name, module):
        self.add_module(name, module)

    def __getattr__(self, name):
        own = self.__dict__
        params = own.get("_parameters")  # by far the most frequent case
        if params is not None and name in params:
            return params[name]
        for table in ("_buffers", "_modules"):
            if table in own and name in own[table]:
                return own[table][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _forget(self, name, *tables):
        for table in tables:
            if name in table:
                if isinstance(table, set):
                    table.discard(name)
                else:
                    del table[name]

    def __setattr__(self, name, value):
        own = self.__dict__
        params, modules, buffers = own.get("_parameters"), own.get("_modules"), own.get("_buffers")
        if isinstance(value, Parameter):
            if params is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, own, buffers, modules, self._non_persistent_buffers_set)
            self.register_parameter(name, value)
        elif params is not None and name in params:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, own, params, buffers, self._non_persistent_buffers_set)
            modules[name] = value
        elif modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            modules[name] = value
        elif isinstance(value, Buffer) or (buffers is not None and name in buffers):
            if buffers is None:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            if value is not None and not isinstance(value, torch.Tensor):
                raise TypeError(
                    f"cannot assign '{typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)"
                )
            persistent = value.persistent if isinstance(value, Buffer) else name not in self._non_persistent_buffers_set
            self._forget(name, own, params, modules)
            self.register_buffer(name, value, persistent)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name):
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self):
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in names if not name[0].isdigit())

    def __setstate__(self, state):
        self.__dict__.update(state)

    # ------------------------------------------------------------------------------------------ the tree

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self):
        for _, module in self.named_modules():
            yield module

    def named_children(self):
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self):
        for _, module in self.named_children():
            yield module

    def _named_members(self, get_members, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for module_prefix, module in owners:
            for name, value in get_members(module):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{module_prefix}.{name}" if module_prefix else name), value

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target):
        module = self
        for part in target.split(".") if target else ():
            if not hasattr(module, part):
                raise AttributeError(f"{module._get_name()} has no attribute `{part}`")
            module = getattr(module, part)
            if not isinstance(module, Module):
                raise AttributeError(f"`{part}` is not an nn.Module")
        return module

    def set_submodule(self, target, module, strict=False):
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, last = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, last):
            raise AttributeError(f"{parent._get_name()} has no attribute `{last}`")
        if hasattr(parent, last) and not isinstance(getattr(parent, last), Module):
            raise AttributeError(f"`{last}` is not an nn.Module")
        setattr(parent, last, module)

    def _member(self, target, kind, is_good):
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        value = getattr(owner, name)
        if not is_good(owner, name, value):
            raise AttributeError(f"`{name}` is not {kind}")
        return value

    def get_parameter(self, target):
        return self._member(target, "an nn.Parameter", lambda owner, name, value: isinstance(value, Parameter))

    def get_buffer(self, target):
        return self._member(target, "a buffer", lambda owner, name, value: name in owner._buffers)

    # --------------------------------------------------------------------------------- what acts on all of it

    def apply(self, fn):
        """Calls fn(module) for each module, children first."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode=True):
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
            else:
                param.grad = param.grad.detach().zero_() if param.grad.grad_fn is not None else param.grad.zero_()

    def _apply(self, fn, recurse=True):
        """Applies fn(tensor) to each parameter, gradient and buffer; parameters stay the same objects."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        with torch.no_grad():
            for param in self._parameters.values():
                if param is None:
                    continue
                grad = param.grad
                param.grad = None  # it must match its parameter at all times
                param.data = fn(param.data)
                if grad is not None:
                    param.grad = fn(grad)
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    def float(self):
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self):
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self):
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self):
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def type(self, dst_type):
        return self._apply(lambda t: t.to(dst_type))

    def cpu(self):
        return self._apply(lambda t: t.cpu())

    def npu(self, device=None):
        device = "npu" if device is None else f"npu:{device}" if isinstance(device, int) else device
        return self._apply(lambda t: t.to(device))

    cuda = npu

    def to_empty(self, *, device, recurse=True):
        return self._apply(lambda t: torch.empty_like(t, device=device), recurse)

    def share_memory(self):
        return self

    def to(self, *args, **kwargs):
        """to(device), to(dtype), to(device, dtype), to(tensor): floating dtypes only; integer tensors keep their dtype."""
        device, dtype = _parse_to(*args, **kwargs)
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")

        def convert(t):
            wanted = dtype if t.is_floating_point() else None
            if device is not None:
                t = t.to(device)
            return t.to(wanted) if wanted is not None else t

        return self._apply(convert)

    # ------------------------------------------------------------------------------------------------ state

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        kept = ((n, b) for n, b in self._buffers.items() if n not in self._non_persistent_buffers_set)
        for name, value in itertools.chain(self._parameters.items(), kept):
            if value is not None:
                destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[prefix + "_extra_state"] = self.get_extra_state()

    def get_extra_state(self):
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state):
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    def state_dict(self, *, destination=None, prefix="", keep_vars=False):
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            changed = hook(self, destination, prefix, metadata)
            if changed is not None:
                if getattr(hook, "_from_public_api", False):
                    raise RuntimeError("state_dict post-hook must return None")
                destination = changed
        return destination

    def load_state_dict(self, state_dict, strict=True, assign=False):
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata
        missing, unexpected, errors = [], [], []
        self._load_tree(state_dict, "", assign, metadata or {}, missing, unexpected, errors)
        if strict:
            if unexpected:
                errors.insert(0, "Unexpected key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in unexpected)))
            if missing:
                errors.insert(0, "Missing key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in missing)))
        if errors:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(errors))
        return _IncompatibleKeys(missing, unexpected)

    def _load_tree(self, state_dict, prefix, assign, metadata, missing, unexpected, errors):
        local = dict(metadata.get(prefix[:-1], {}))
        if assign:
            local["assign_to_params_buffers"] = True
        # unexpected keys are always collected; load_state_dict(strict) decides whether they are errors
        self._load_from_state_dict(state_dict, prefix, local, True, missing, unexpected, errors)
        for name, module in self._modules.items():
            if module is not None:
                below = f"{prefix}{name}."
                part = {key: value for key, value in state_dict.items() if key.startswith(below)}
                module._load_tree(part, below, assign, metadata, missing, unexpected, errors)
        result = _IncompatibleKeys(missing, unexpected)
        for hook in self._load_state_dict_post_hooks.values():
            if hook(self, result) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values, "
                    "if incompatible_keys need to be modified, it should be done inplace."
                )

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        buffers = {n: b for n, b in self._buffers.items() if n not in self._non_persistent_buffers_set}
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, own in {**self._parameters, **buffers}.items():
            key = prefix + name
            if own is None:
                continue
            if key not in state_dict:
                missing_keys.append(key)
                continue
            error = self._load_one(name, key, own, state_dict[key], assign)
            if error is not None:
                error_msgs.append(error)
        if type(self).set_extra_state is not Module.set_extra_state:
            if prefix + "_extra_state" in state_dict:
                self.set_extra_state(state_dict[prefix + "_extra_state"])
            elif strict:
                missing_keys.append(prefix + "_extra_state")
        if strict:
            known = {*self._modules, *self._parameters, *buffers}
            if type(self).set_extra_state is not Module.set_extra_state:
                known.add("_extra_state")
            for key in state_dict:
                if key.startswith(prefix):
                    first, _, rest = key[len(prefix) :].partition(".")
                    if first not in known or (rest and first not in self._modules):
                        unexpected_keys.append(key)

    def _load_one(self, name, key, own, value, assign):
        """Copies (or assigns) one entry; returns an error message or None."""
        if not isinstance(value, torch.Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint '
                f"but received {type(value)}"
            )
        if own.dim() == 0 and value.dim() == 1 and value.shape[0] == 1:
            value = value[0]  # as in very old files
        if value.shape != own.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                f"the shape in current model is {own.shape}."
            )
        try:
            if not assign:
                with torch.no_grad():
                    own.copy_(value)
            elif isinstance(own, Parameter):
                setattr(self, name, value if isinstance(value, Parameter) else Parameter(value, own.requires_grad))
            else:
                setattr(self, name, value)
        except Exception as error:
            return (
                f'While {"swapping" if assign else "copying"} the parameter named "{key}", '
                f"whose dimensions in the model are {own.size()} and "
                f"whose dimensions in the checkpoint are {value.size()}, an exception occurred : {error.args}."
            )
        return None

    # ------------------------------------------------------------------------------------------------ hooks

    @staticmethod
    def _hooked(table, hook, prepend=False, **flags):
        """flags: extra tables, and whether this hook is in each."""
        extras = [extra for extra, _ in flags.values()]
        handle = RemovableHandle(table, extra_dict=extras)
        table[handle.id] = hook
        for extra, on in flags.values():
            if on:
                extra[handle.id] = True
        if prepend:
            table.move_to_end(handle.id, last=False)
        return handle

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args[, kwargs]) -> None or replacements."""
        return self._hooked(
            self._forward_pre_hooks, hook, prepend, kwargs=(self._forward_pre_hooks_with_kwargs, with_kwargs)
        )

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """hook(module, args[, kwargs], output) -> None or a replacement output."""
        return self._hooked(
            self._forward_hooks, hook, prepend,
            kwargs=(self._forward_hooks_with_kwargs, with_kwargs), always=(self._forward_hooks_always_called, always_call),
        )  # fmt: skip

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """hook(module, grad_output) -> None or replacement gradients."""
        return self._hooked(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook, prepend=False):
        """hook(module, grad_input, grad_output) -> None or a replacement grad_input."""
        if self._is_full_backward_hook is False:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. "
                "Please use only one of them."
            )
        self._is_full_backward_hook = True
        return self._hooked(self._backward_hooks, hook, prepend)

    def register_state_dict_pre_hook(self, hook):
        return self._hooked(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook):
        hook._from_public_api = True
        return self._hooked(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook):
        return self._hooked(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook):
        return self._hooked(self._load_state_dict_pre_hooks, functools.partial(hook, self))

    def register_load_state_dict_post_hook(self, hook):
        return self._hooked(self._load_state_dict_post_hooks, hook)

    # ------------------------------------------------------------------------------------------------- call

    def __call__(self, *args, **kwargs):
        own = self.__dict__
        if not (
            own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"]
        ):
            return self.forward(*args, **kwargs)
        return self._call_hooked(args, kwargs)

    def _call_hooked(self, args, kwargs):
        called = set()
        result = None
        try:
            args, kwargs = self._before(args, kwargs)
            backward = None
            if self._backward_hooks or self._backward_pre_hooks:
                backward = BackwardHook(
                    self, list(self._backward_hooks.values()), list(reversed(self._backward_pre_hooks.values()))
                )
                args = backward.setup_input_hook(args)
            result = self.forward(*args, **kwargs)
            for id, hook in list(self._forward_hooks.items()):
                called.add(id)
                result = self._after(id, hook, args, kwargs, result)
            return backward.setup_output_hook(result) if backward is not None else result
        except Exception:
            for id, hook in list(self._forward_hooks.items()):  # those with always_call
                if id in self._forward_hooks_always_called and id not in called:
                    result = self._after(id, hook, args, kwargs, result)
            raise

    def _before(self, args, kwargs):
        for id, hook in list(self._forward_pre_hooks.items()):
            if id in self._forward_pre_hooks_with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    if not (isinstance(changed, tuple) and len(changed) == 2):
                        raise RuntimeError(
                            f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                        )
                    args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        return args, kwargs

    def _after(self, id, hook, args, kwargs, result):
        changed = hook(self, args, kwargs, result) if id in self._forward_hooks_with_kwargs else hook(self, args, result)
        return result if changed is None else changed

    # ------------------------------------------------------------------------------------------------- text

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [f"({name}): {_indented(repr(module), 2)}" for name, module in self._modules.items()]
        lines = extra_lines + child_lines
        if len(extra_lines) == 1 and not child_lines:
            return f"{self._get_name()}({extra_lines[0]})"
        if not lines:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


def _parse_to(*args, device=None, dtype=None, non_blocking=False, copy=False):
    """The device and dtype requested from to()."""
    for value in args[:2]:
        if isinstance(value, torch.Tensor):
            device, dtype = value.device, value.dtype
        elif isinstance(value, torch.dtype):
            dtype = value
        elif value is not None and not isinstance(value, bool):
            device = value
    return device, dtype

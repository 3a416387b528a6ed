"""Scopes around functions that run piece by piece: each piece is a scope of its own, so that scopes of a thread stay nested."""
import functools
import inspect


def _steps(send, throw, name, args):
    """Drives a generator or coroutine, each resumption within the scope."""
    from ._native import record_function

    scope, resume, value = record_function(name, args), send, None
    while True:
        try:
            with scope:
                item = resume(value)
        except StopIteration as end:
            return end.value
        try:
            resume, value = send, (yield item)
        except GeneratorExit:
            raise
        except BaseException as error:  # what the caller throws in goes on in
            resume, value = throw, error


class _Awaited:
    def __init__(self, coroutine, name, args):
        self.coroutine, self.name, self.args = coroutine, name, args

    def __await__(self):
        try:
            return (yield from _steps(self.coroutine.send, self.coroutine.throw, self.name, self.args))
        finally:
            self.coroutine.close()


def wrap(function, name, args):
    """The function in the scope, or None for one that runs in one go."""
    from ._native import record_function

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapper(*positional, **named):
            return await _Awaited(function(*positional, **named), name, args)

    elif inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def wrapper(*positional, **named):
            generator = function(*positional, **named)
            try:
                return (yield from _steps(generator.send, generator.throw, name, args))
            finally:
                generator.close()

    elif inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def wrapper(*positional, **named):
            generator = function(*positional, **named)
            value = None
            try:
                while True:
                    try:
                        item = await _Awaited(generator.asend(value), name, args)
                    except StopAsyncIteration:
                        return
                    value = yield item
            finally:
                await generator.aclose()

    else:
        return None
    return wrapper

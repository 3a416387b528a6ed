"""Scopes around coroutine and generator functions. A call of a coroutine function is one scope, from its first step to its end, as
`with record_function` in its body would be. A generator is in its scope only while it produces an item: its consumer is not."""
import functools
import inspect


def wrap(function, name, args):
    """The function wrapped in the scope; None for a plain function."""
    from ._native import record_function

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapper(*positional, **named):
            with record_function(name, args):
                return await function(*positional, **named)

    elif inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def wrapper(*positional, **named):
            generator = function(*positional, **named)
            scope, resume, value = record_function(name, args), generator.send, None
            try:
                while True:
                    try:
                        with scope:
                            item = resume(value)
                    except StopIteration as end:
                        return end.value
                    try:
                        resume, value = generator.send, (yield item)
                    except GeneratorExit:
                        raise
                    except BaseException as error:  # what the caller throws in is passed on
                        resume, value = generator.throw, error
            finally:
                generator.close()

    elif inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def wrapper(*positional, **named):
            generator = function(*positional, **named)
            resume, value = generator.asend, None
            try:
                while True:
                    try:
                        with record_function(name, args):
                            item = await resume(value)
                    except StopAsyncIteration:
                        return
                    try:
                        resume, value = generator.asend, (yield item)
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        resume, value = generator.athrow, error
            finally:
                await generator.aclose()

    else:
        return None
    return wrapper

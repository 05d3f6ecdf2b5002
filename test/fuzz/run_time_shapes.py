"""Nodes of random graphs whose results have lengths that data or requests decide (random_graphs.py)."""

import numpy as np
from onnx import TensorProto, helper


class RunTimeShapes:
    """Adds nodes of run-time shapes to a RandomGraph. New lengths get names of their own in `most`."""

    def add_run_time_makers(self, makers, shape):
        """`makers` of a value of that shape, with these."""
        choosable = [d for d, extent in enumerate(shape) if extent in self.request_lengths or not isinstance(extent, str)]
        if choosable:
            makers += [self.compress, self.top_computed, self.where]
        if 0 in choosable:
            makers += [self.gather_chosen]
        if shape:
            makers += [self.positions, self.half, self.twice, self.repeat_rows, self.zeros, self.distinct]
        if len(shape) > 1:
            makers += [self.triangle]

    def length(self, most):
        name = f"length{len(self.most)}"
        self.most[name] = most
        return name

    def part(self, kind, operands, **attributes):
        """A node on the way to one that counts; its result."""
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, operands, [name], name=name, **attributes))
        return name

    def numbers_of(self, *numbers):
        return self.constant(np.int64(numbers))

    def condition(self, extent):
        """A bool for each index, from an input; the first is true, so that nothing is empty."""
        name = f"m{len(self.inputs)}"
        self.inputs.append((name, [extent]))
        return self.part("Greater", [name, self.constant(np.float32(0))])

    def choosable(self, shape):
        return self.dice.choice([d for d, extent in enumerate(shape) if extent in self.request_lengths or not isinstance(extent, str)])

    def most_of(self, extent):
        return self.most.get(extent, extent)

    def extent_of(self, value, axis):
        return self.part("Gather", [self.part("Shape", [value]), self.numbers_of(axis)])

    def compress(self, value, shape, _):
        axis = self.choosable(shape)
        kept = self.length(self.most_of(shape[axis]))
        self.node("Compress", [value, self.condition(shape[axis])], self.longer(shape, axis, kept), axis=axis)

    def gather_chosen(self, value, shape, _):
        indices = self.part("Transpose", [self.part("NonZero", [self.condition(shape[0])])], perm=[1, 0])
        self.node("GatherND", [value, indices], self.longer(shape, 0, self.length(self.most_of(shape[0]))))

    def top_computed(self, value, shape, _):
        axis = self.choosable(shape)
        ones = self.part("Cast", [self.condition(shape[axis])], to=TensorProto.INT64)
        count = self.part("ReduceSum", [ones, self.numbers_of(0)], keepdims=1)
        self.node("TopK", [value, count], self.longer(shape, axis, self.length(self.most_of(shape[axis]))), results=2, axis=axis)

    def where(self, value, shape, _):
        axis = self.choosable(shape)
        behind = len(shape) - axis - 1
        chosen = self.condition(shape[axis])
        if behind:
            chosen = self.part("Unsqueeze", [chosen, self.numbers_of(*range(1, behind + 1))])
        self.node("Where", [chosen, value, self.constant(np.float32(0.25))], shape)

    def positions(self, value, shape, _):
        """value + 0.1 * index along an axis."""
        axis = self.axis(shape)
        end = self.part("Squeeze", [self.extent_of(value, axis)])
        counted = self.part("Range", [self.constant(np.int64(0)), end, self.constant(np.int64(1))])
        if axis + 1 < len(shape):
            counted = self.part("Unsqueeze", [counted, self.numbers_of(*range(1, len(shape) - axis))])
        scaled = self.part("Mul", [self.part("Cast", [counted], to=TensorProto.FLOAT), self.constant(np.float32(0.1))])
        self.node("Add", [value, scaled], shape)

    def half(self, value, shape, _):
        """The first half of an axis, rounded up."""
        axis = self.axis(shape)
        end = self.part("Div", [self.part("Add", [self.extent_of(value, axis), self.numbers_of(1)]), self.numbers_of(2)])
        most = (self.most_of(shape[axis]) + 1) // 2
        extent = self.length(most) if isinstance(shape[axis], str) else most
        self.node("Slice", [value, self.numbers_of(0), end, self.numbers_of(axis)], self.longer(shape, axis, extent))

    def twice(self, value, shape, _):
        """Concatenates a value with itself, along any axis."""
        axis = self.axis(shape)
        most = 2 * self.most_of(shape[axis])
        extent = self.length(most) if isinstance(shape[axis], str) else most
        self.node("Concat", [value, value], self.longer(shape, axis, extent), axis=axis)

    def repeat_rows(self, value, shape, _):
        """Expanded by a dim of another value."""
        other, dims = self.dice.choice(self.values)
        if not dims or len(shape) > 3:
            return
        axis = self.axis(dims)
        whole = self.part("Concat", [self.extent_of(other, axis), self.part("Shape", [value])], axis=0)
        self.node("Expand", [value, whole], [dims[axis], *shape])

    def zeros(self, value, shape, _):
        """value + a tensor of zeros of its shape."""
        filled = self.part("ConstantOfShape", [self.part("Shape", [value])])
        self.node("Add", [value, filled], shape)

    def triangle(self, value, shape, _):
        self.node("Trilu", [value], shape, upper=self.dice.randrange(2))

    def distinct(self, _value, _shape, _):
        """The numbers that an input holds once or more, of few that it can hold."""
        name, dims = self.dice.choice(self.inputs)
        coarse = self.part("Floor", [self.part("Mul", [name, self.constant(np.float32(3))])])
        flat = self.part("Reshape", [coarse, self.numbers_of(-1)])
        count = int(np.prod([self.most_of(extent) for extent in dims]))
        self.node("Unique", [flat], [self.length(count)], sorted=1)

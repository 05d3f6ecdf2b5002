# Options with which kernels vectorise. They exclude -ffast-math, which would break masks of infinities and the range
# reductions. Only loops are vectorised: in straight-line code GCC 12 miscompiles the sum or maximum of a few
# comparisons as one of masks. Bodies of loops over a team are inlined in spite of large arrays: otherwise GCC does not
# vectorise loops that read captures. Instruction scheduling before register allocation, which GCC does for Arm but not
# for x86, moves loads so early that tiles spill.
set(WEFT_KERNEL_OPTIONS -O3 -fno-math-errno -fno-trapping-math -fwrapv -fno-tree-slp-vectorize
    "$<$<CXX_COMPILER_ID:GNU>:-fno-tree-loop-distribute-patterns;-fno-schedule-insns;--param=large-stack-frame=1000000>" -fopenmp-simd)

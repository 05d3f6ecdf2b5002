# What kernels need to vectorise; not -ffast-math, which would break masks of infinities and the range reductions, and
# loops only: of straight code GCC 12 takes the sum or maximum of a few comparisons for one of masks. Bodies of loops
# over a team are inlined whatever arrays they have, or GCC does not vectorise loops that read what they captured.
# Scheduling before registers are assigned, which GCC does for Arm and not for x86, loads so early that tiles spill.
set(WEFT_KERNEL_OPTIONS -O3 -fno-math-errno -fno-trapping-math -fwrapv -fno-tree-slp-vectorize
    "$<$<CXX_COMPILER_ID:GNU>:-fno-tree-loop-distribute-patterns;-fno-schedule-insns;--param=large-stack-frame=1000000>" -fopenmp-simd)

// The kernels of sums.cu, as C++ on the emulation.
#include "kernels/cuda/sums.cu"

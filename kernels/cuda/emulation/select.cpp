// The kernels of select.cu, as C++ on the emulation.
#include "kernels/cuda/select.cu"

// The kernels of training.cu, as C++ on the emulation.
#include "training/cuda/training.cu"

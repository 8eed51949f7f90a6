/* shim.c - what PyTorch asks the CUDA runtime for, where there is none: one device is there. */
#include <string.h>

int cudaGetDeviceCount(int *count)
{
	*count = 1;
	return 0;
}

int cudaGetDeviceProperties(void *properties, int device)
{
	(void)device;
	memset(properties, 0, 256); /* the name; of the others none is asked for */
	return 0;
}

int cudaDriverGetVersion(int *version)
{
	*version = 13000;
	return 0;
}

int cudaRuntimeGetVersion(int *version)
{
	*version = 13000;
	return 0;
}

int cudaDeviceSynchronize(void)
{
	return 0;
}

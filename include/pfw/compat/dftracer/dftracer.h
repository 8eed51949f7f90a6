/* dftracer/dftracer.h - under the name by which programs include DFTracer. */
#include "../dftracer.h"

/* looker.c - looks a function up by name, as JAX's plugin does, whose name this library has. */
#include <dlfcn.h>

void *look(void *library, const char *name);

void *look(void *library, const char *name)
{
	return dlsym(library, name);
}

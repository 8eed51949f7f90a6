/* tools/symbolize/elfutils.c - opens libdw; see elfutils.h. */
#include "symbolize/elfutils.h"

#include <dlfcn.h>
#include <stdio.h>

#ifdef PFW_HAVE_DW

struct elfutils elfutils;

static char *(*demangle)(const char *name, char *out, size_t *bytes, int *status);

int elfutils_open(char *why, size_t size)
{
	void *dw = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL), *cxx;

	if (!dw) {
		snprintf(why, size,
			 "%s: install elfutils' library: libdw1 (Debian, Ubuntu) or elfutils-libs",
			 dlerror());
		return -1;
	}
#define X(name)                                                                                   \
	elfutils.name = (__typeof__(elfutils.name))dlsym(dw, #name);                              \
	if (!elfutils.name) {                                                                     \
		snprintf(why, size, "libdw.so.1 has no %s(): install elfutils of 0.173 or later", \
			 #name);                                                                  \
		return -1;                                                                        \
	}
	ELFUTILS_CALLS(X)
#undef X
	/* Programs with C++ names mostly bring libstdc++ along; a program in C does not need it. */
	cxx = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
	demangle = cxx ? (__typeof__(demangle))dlsym(cxx, "__cxa_demangle") : NULL;
	return 0;
}

char *elfutils_demangle(const char *symbol)
{
	int status;

	return demangle && symbol[0] == '_' && symbol[1] == 'Z'
		       ? demangle(symbol, NULL, NULL, &status)
		       : NULL;
}

#else

int elfutils_open(char *why, size_t size)
{
	snprintf(
		why, size,
		"this pfw was built without elfutils: install libdw-dev (Debian, Ubuntu) or elfutils-devel, "
		"and build it again");
	return -1;
}

char *elfutils_demangle(const char *symbol)
{
	(void)symbol;
	return NULL;
}

#endif

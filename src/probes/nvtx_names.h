/* nvtx_names.h - NVTX's registered strings, domains and named categories: kept for good, within bounds. */
#ifndef PFW_NVTX_NAMES_H
#define PFW_NVTX_NAMES_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

/* A text that has been registered: its address is the handle that the program gets. */
struct pfw_nvtx_name {
	struct pfw_nvtx_name *next;
	uint32_t number; /* of a category */
	const void *of;	 /* what kind of name it is, or whose category */
	char text[];
};

#define PFW_NVTX_TEXT_BYTES 1024 /* longer wide texts are cut */

/* The name of this text among those of `of`; made where there is none yet.  NULL: there are too many,
 * or no memory.  Thread: app. */
struct pfw_nvtx_name *pfw_nvtx_name(const void *of, const char *text);

/* Name category `number` of a domain (NULL: the default one), and find its name, NULL = none. */
void pfw_nvtx_name_category(const void *domain, uint32_t number, const char *text);
const char *pfw_nvtx_category(const void *domain, uint32_t number);

/* A wide text as UTF-8 in buf; returns buf.  Thread: any.  Signal: safe. */
const char *pfw_nvtx_narrow(char buf[PFW_NVTX_TEXT_BYTES], const wchar_t *wide);

#endif

/* recorder/marks/nvtx_names.h - NVTX's registered strings, domains and categories. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

/* A registered text.  Its address is the handle that the program gets. */
struct pfw_nvtx_name {
	struct pfw_nvtx_name *next;
	uint32_t number; /* a category's number */
	const void *of;	 /* the kind of name, or a category's domain */
	char text[];
};

#define PFW_NVTX_TEXT_BYTES 1024 /* longer wide texts are cut */

/* Find or make the name with this text among those of `of`.  NULL: too many names, or no memory.
 * Thread: app. */
struct pfw_nvtx_name *pfw_nvtx_name(const void *of, const char *text);

/* Name category `number` of a domain (NULL: the default domain); find a category's name, NULL =
 * none. */
void pfw_nvtx_name_category(const void *domain, uint32_t number, const char *text);
const char *pfw_nvtx_category(const void *domain, uint32_t number);

/* A wide text as UTF-8 in buf; returns buf.  Thread: any.  Signal: safe. */
const char *pfw_nvtx_narrow(char buf[PFW_NVTX_TEXT_BYTES], const wchar_t *wide);

/* calls_table.c - calls.def as data. */
#include "calls_table.h"

#include "../record.h"

/* clang-format off */
#define I64(key, ...) { #key, PFW_TYPE_I64 }
#define U64(key, ...) { #key, PFW_TYPE_U64 }
#define STR(key) { #key, PFW_TYPE_STRING }
#define REF(key) { #key, PFW_TYPE_REF }
/* clang-format on */
#define FD 1
#define NOFD 0
#define ROW(category, name, canonical, fd, keeps, ...)                                      \
	{ #name,                                                                            \
	  #canonical,                                                                       \
	  #category,                                                                        \
	  fd,                                                                               \
	  keeps,                                                                            \
	  sizeof((struct pfw_call_field[]){ __VA_ARGS__ }) / sizeof(struct pfw_call_field), \
	  { __VA_ARGS__ } },

static const struct pfw_call_info calls[] = {
#define CALL_FD(category, ret, name, canonical, params, args, fd, ...) \
	ROW(category, name, canonical, 1, 0, __VA_ARGS__)
#define CALL_PATH(category, ret, name, canonical, params, args, dirfd, path, ...) \
	ROW(category, name, canonical, 0, 0, __VA_ARGS__)
#define CALL_STREAM(category, ret, name, canonical, params, args, stream, ...) \
	ROW(category, name, canonical, 1, 0, __VA_ARGS__)
#define CALL_BY_HAND(category, ret, name, canonical, fd, ...) \
	ROW(category, name, canonical, fd, 0, __VA_ARGS__)
#define CALL_KEEPS(category, ret, name, canonical, fd, ...) \
	ROW(category, name, canonical, fd, 1, __VA_ARGS__)
#include "calls.def"
};
_Static_assert(sizeof(calls) / sizeof(calls[0]) <= PFW_CALLS_MAX, "raise PFW_CALLS_MAX");

const struct pfw_call_info *pfw_calls_info(size_t *count)
{
	*count = sizeof(calls) / sizeof(calls[0]);
	return calls;
}

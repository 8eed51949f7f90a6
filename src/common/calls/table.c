/* common/calls/table.c - calls.def as data. */
#include "common/calls/table.h"

#include "common/format/record.h"

/* clang-format off */
#define I64(key, ...) { #key, PFW_TYPE_I64 }
#define U64(key, ...) { #key, PFW_TYPE_U64 }
#define NAMES(set, key, ...) { #key, PFW_TYPE_NAMES + PFW_NAMES_##set }
#define SOME(key) { #key, PFW_TYPE_SOME }
#define STR(key) { #key, PFW_TYPE_STRING }
#define REF(key) { #key, PFW_TYPE_REF }
/* clang-format on */
#define FD 1
#define NOFD 0
#define ROW(category, name, canonical, role, moves, fd, keeps, ...)                         \
	{ #name,                                                                            \
	  #canonical,                                                                       \
	  #category,                                                                        \
	  fd,                                                                               \
	  keeps,                                                                            \
	  PFW_ROLE_##role,                                                                  \
	  PFW_MOVES_##moves,                                                                \
	  sizeof((struct pfw_call_field[]){ __VA_ARGS__ }) / sizeof(struct pfw_call_field), \
	  { __VA_ARGS__ } },

static const struct pfw_call_info calls[] = {
#define CALL_FD(category, ret, name, canonical, role, moves, params, args, fd, ...) \
	ROW(category, name, canonical, role, moves, 1, 0, __VA_ARGS__)
#define CALL_PATH(category, ret, name, canonical, role, moves, params, args, dirfd, path, ...) \
	ROW(category, name, canonical, role, moves, 0, 0, __VA_ARGS__)
#define CALL_STREAM(category, ret, name, canonical, role, moves, params, args, stream, ...) \
	ROW(category, name, canonical, role, moves, 1, 0, __VA_ARGS__)
#define CALL_BY_HAND(category, ret, name, canonical, role, moves, fd, ...) \
	ROW(category, name, canonical, role, moves, fd, 0, __VA_ARGS__)
#define CALL_KEEPS(category, ret, name, canonical, role, moves, fd, ...) \
	ROW(category, name, canonical, role, moves, fd, 1, __VA_ARGS__)
#include "common/calls/calls.def"
};
_Static_assert(sizeof(calls) / sizeof(calls[0]) <= PFW_CALLS_MAX, "raise PFW_CALLS_MAX");

const struct pfw_call_info *pfw_calls_info(size_t *count)
{
	*count = sizeof(calls) / sizeof(calls[0]);
	return calls;
}

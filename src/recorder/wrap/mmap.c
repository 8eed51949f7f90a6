/* recorder/wrap/mmap.c - wrappers of calls that map files, and of calls on mappings. */
#define PFW_OS_NO_POISON
#include "recorder/wrap/posix.h"

#include "recorder/guest/locked.h"
#include "recorder/probe/call_filter.h"
#include "recorder/probe/mappings.h"
#include "recorder/spool/strings.h"
#include "recorder/wrap/calls.h"
#include "recorder/wrap/unrecorded.h"

/* A mapping was made: forget what it replaces and remember a traced file. */
static void mapped(void *at, size_t length, const struct pfw_probe *file)
{
	uint32_t name;

	if (at == MAP_FAILED || !(file || pfw_mappings_any()) || !pfw_probe_on())
		return;
	pfw_mappings_cut((uintptr_t)at, length, &name);
	if (file)
		pfw_mappings_add((uintptr_t)at, length,
				 file->name == PFW_NAME_BY_LINK ? 0 : file->name);
}

#define MMAP(name, type)                                                                           \
	void *pfw_wrap_##name(void *addr, size_t length, int prot, int flags, int fd, type offset) \
	{                                                                                          \
		struct pfw_probe probe;                                                            \
		bool traced = fd >= 0 && !(flags & MAP_ANONYMOUS) &&                               \
			      pfw_probe_fd(&probe, pfw_call_filter[PFW_CALL_##name], fd);          \
		void *at = pfw_real.name(addr, length, prot, flags, fd, offset);                   \
		if (traced)                                                                        \
			pfw_end_fd(&probe,                                                         \
				   PFW_VALUES((uint64_t)at, (uint64_t)fd, length, (uint64_t)prot,  \
					      (uint64_t)flags, (uint64_t)offset));                 \
		mapped(at, length, traced ? &probe : NULL);                                        \
		return at;                                                                         \
	}

MMAP(mmap, off_t)
MMAP(mmap64, off64_t)
#undef MMAP

int pfw_wrap_munmap(void *addr, size_t length)
{
	struct pfw_probe probe;
	uint32_t name = 0;
	uint64_t touched = 0;
	bool traced = false, refused;
	int ret;

	/* A call that the kernel will refuse unmaps nothing. */
	if (pfw_mappings_any() && pfw_probe_on()) {
		refused = !length || (uintptr_t)addr & (pfw_os_page_bytes() - 1);
		if (!refused && pfw_call_filter[PFW_CALL_munmap] != PFW_CALL_NONE)
			touched = pfw_mappings_touched((uintptr_t)addr, length);
		traced = refused ? pfw_mappings_find((uintptr_t)addr, length, &name)
				 : pfw_mappings_cut((uintptr_t)addr, length, &name);
	}
	if (traced)
		pfw_unrecorded_goes(name);
	traced = traced && pfw_probe_bare(&probe, PFW_CALL_munmap);
	ret = pfw_real.munmap(addr, length);
	if (!traced)
		return ret;
	probe.name = name;
	pfw_end_fd(&probe,
		   PFW_VALUES((uint64_t)ret, (uintptr_t)addr, length, ret < 0 ? 0 : touched));
	return ret;
}

#define ON_MAPPING(call, end)                                                                   \
	int pfw_wrap_##call(void *addr, size_t length, int how)                                 \
	{                                                                                       \
		struct pfw_probe probe;                                                         \
		uint32_t file = 0;                                                              \
		int ret;                                                                        \
                                                                                                \
		if (!pfw_mappings_any() || !pfw_probe_on() ||                                   \
		    !pfw_mappings_find((uintptr_t)addr, length, &file) ||                       \
		    !pfw_probe_bare(&probe, PFW_CALL_##call))                                   \
			return pfw_real.call(addr, length, how);                                \
		ret = pfw_real.call(addr, length, how);                                         \
		probe.name = file;                                                              \
		end(&probe, PFW_VALUES((uint64_t)ret, (uintptr_t)addr, length, (uint64_t)how)); \
		return ret;                                                                     \
	}

ON_MAPPING(msync, pfw_end_fd)
ON_MAPPING(madvise, pfw_end_fd)
ON_MAPPING(posix_madvise, pfw_end_number)
#undef ON_MAPPING

/* A mapping that moves is forgotten before the call, as by munmap(), and restored if the call
 * fails.  With an old length of 0 the old mapping stays, too. */
void *pfw_wrap_mremap(void *addr, size_t length, size_t size, int flags, ...)
{
	struct pfw_probe probe;
	uint32_t name = 0, gone;
	bool found, traced;
	va_list rest;
	void *to, *at;

	va_start(rest, flags);
	to = va_arg(rest, void *);
	va_end(rest);
	found = pfw_mappings_any() && pfw_probe_on() &&
		pfw_mappings_find((uintptr_t)addr, length, &name);
	traced = found && pfw_probe_bare(&probe, PFW_CALL_mremap);
	if (found && name && !pfw_string_hold(name))
		name = 0;
	if (found && length && !(flags & MREMAP_DONTUNMAP))
		pfw_mappings_cut((uintptr_t)addr, length, &gone);
	at = pfw_real.mremap(addr, length, size, flags, to);
	if (traced) {
		probe.name = name;
		pfw_end_fd(&probe, PFW_VALUES((uint64_t)at, (uintptr_t)addr, length, size,
					      (uint64_t)flags));
	}
	if (found && at == MAP_FAILED && length)
		pfw_mappings_add((uintptr_t)addr, length, name);
	probe.name = name;
	mapped(at, size, found ? &probe : NULL);
	if (found)
		pfw_string_drop(name);
	return at;
}

/* ---- the whole memory ---- */

int pfw_wrap_mlockall(int flags)
{
	struct pfw_probe probe;
	/* Before the call: it makes this thread's ring while that counts for nothing. */
	bool traced = pfw_probe_bare(&probe, PFW_CALL_mlockall);
	int ret = pfw_real.mlockall(flags);

	if (ret == 0 && !pfw_thread.vfork_child)
		atomic_store(&pfw_locked, (flags & MCL_FUTURE) != 0);
	if (traced)
		pfw_probe_end(&probe, ret < 0, PFW_VALUES((uint64_t)ret, (uint64_t)flags));
	return ret;
}

int pfw_wrap_munlockall(void)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_bare(&probe, PFW_CALL_munlockall);
	int ret = pfw_real.munlockall();

	if (ret == 0 && !pfw_thread.vfork_child)
		atomic_store(&pfw_locked, false);
	if (traced)
		pfw_probe_end(&probe, ret < 0, PFW_VALUES((uint64_t)ret));
	return ret;
}

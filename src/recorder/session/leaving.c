/* recorder/session/leaving.c - makes the recorder ready to be unloaded, after `pfw detach`.
 *
 * No call leads to us any more, and libc forgets our hooks.  From then on threads may leave our
 * code, but none enters it, since what a program has copied are thunks, which stay
 * (recorder/attach/thunks.h).  So a thread that the command has seen outside is outside for good,
 * and once it has seen all of them so, the code may go.  Until then, or if one is inside for long,
 * everything stays as it is, and the next attachment uses it.
 */
#include <link.h>
#include <string.h>

#include "common/base/maps.h"
#include "common/format/attach.h"
#include "common/format/gzip.h"
#include "recorder/attach/attach.h"
#include "recorder/gpu_records/lib.h"
#include "recorder/session/internal.h"

static const char *stays(void)
{
	if (pfw_session.pinned || pfw_session.preloaded || pfw_session.api_used)
		return "the program was started under pfw, or uses it itself";
	if (pfw_session.forked)
		return "it was forked from a process that was recorded";
	if (pfw_session.confined)
		return "a file of ours could not be left";
	if (pfw_session.config.torch_ops || pfw_cuda_loaded())
		return "PyTorch's or NVIDIA's libraries hold functions of ours";
	return pfw_attach_stays();
}

static int take_code(struct dl_phdr_info *info, size_t size, void *user)
{
	struct pfw_attach_block *block = user;
	uint64_t here = (uintptr_t)take_code;

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + part->p_vaddr, end = start + part->p_memsz;

		if (part->p_type != PT_LOAD || here < start || here >= end)
			continue;
		block->code = start;
		block->code_end = end;
		return 1;
	}
	return 0;
}

/* Its library goes with it; a new trace opens it again. */
static void close_gzip(void *unused)
{
	(void)unused;
	pfw_gzip_close(pfw_session.gzip);
	pfw_session.gzip = pfw_session.writer.gzip = NULL;
}

void pfw_session_prepare_to_leave(struct pfw_attach_block *block)
{
	const char *why = stays();

	if (why) {
		strncpy(block->stays, why, sizeof(block->stays) - 1);
		return;
	}
	pfw_session_unhook();
	pfw_session_do(close_gzip, NULL);
	dl_iterate_phdr(take_code, block);
}

struct listing {
	struct pfw_attach_memory *left;
	size_t room;
};

static bool list(void *user, void *at, size_t bytes)
{
	struct listing *listing = user;

	if (listing->room == 1)
		return false;
	*listing->left++ = (struct pfw_attach_memory){ (uintptr_t)at, bytes };
	listing->room--;
	return true;
}

/* More than has room in the list stays mapped. */
void pfw_session_leave(struct pfw_attach_block *block)
{
	struct listing listing = { block->left, sizeof(block->left) / sizeof(*block->left) };

	pfw_maps_all(list, &listing);
	*listing.left = (struct pfw_attach_memory){ 0 };
}

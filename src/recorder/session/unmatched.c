/* recorder/session/unmatched.c - says at the end of a run which globs of a variable matched
 * nothing.
 *
 * A glob may match in any process of the run, so all mark the header of the root's spool, and the
 * root says it.
 */
#include <string.h>

#include "common/base/text.h"
#include "recorder/guest/say.h"
#include "recorder/probe/path_filter.h"
#include "recorder/session/internal.h"

static bool is_root(void)
{
	const struct pfw_identity *id = &pfw_session.identity;

	return id->root.pid == id->process.pid && id->root.start_time == id->process.start_time;
}

/* Programs that PFW_CHILDREN matches; "all" and "none" match no name. */
static const char *children_globs(void)
{
	const char *globs = pfw_session.config.children;

	return globs && !pfw_text_same(globs, "all") && !pfw_text_same(globs, "none") ? globs
										      : NULL;
}

void pfw_session_mark_globs(uint64_t children)
{
	const struct pfw_identity *id = &pfw_session.identity;
	struct pfw_spool_header *root = pfw_session.spool.header;

	if (!pfw_session.config.exclude && !children_globs())
		return;
	if (!is_root())
		root = pfw_spool_watch(&id->dirs, id->uid, id->root.pid, id->root.start_time, true);
	if (!root)
		return;
	for (unsigned i = 0; i < PFW_GLOB_LISTS && is_root(); i++)
		atomic_fetch_or(&root->matched[i], id->matched[i]);
	atomic_fetch_or(&root->matched[PFW_GLOBS_CHILDREN], children);
	pfw_path_filter_mark_into(&root->matched[PFW_GLOBS_EXCLUDE]);
}

/* "BEFORE glob, glob"; nothing if all have matched. */
static void say_globs(const char *before, const char *list, char separator, uint64_t matched)
{
	struct pfw_text text;
	char line[512];
	unsigned glob = 0, said = 0;

	pfw_text_init(&text, line, sizeof(line));
	pfw_text_add(&text, before);
	for (const char *end; list; list = *end ? end + 1 : NULL, glob++) {
		end = strchrnul(list, separator);
		if (end == list || (matched >> (glob < 63 ? glob : 63) & 1))
			continue;
		pfw_text_add(&text, said++ ? ", " : "");
		pfw_text_add_bytes(&text, list, (size_t)(end - list));
	}
	if (said)
		pfw_say(line);
}

void pfw_session_say_unmatched(void)
{
	const struct pfw_spool_header *header = pfw_session.spool.header;

	if (pfw_session.globs_said || pfw_session.spool.heap || !is_root() ||
	    pfw_session.identity.rank.rank > 0)
		return;
	pfw_session.globs_said = true;
	if (pfw_session.config.exclude && atomic_load(&pfw_session.io))
		say_globs("PFW_EXCLUDE: no file that the run used is matched by ",
			  pfw_session.config.exclude, ':',
			  atomic_load(&header->matched[PFW_GLOBS_EXCLUDE]));
	if (children_globs())
		say_globs("PFW_CHILDREN: no program of the run is named ", children_globs(), ',',
			  atomic_load(&header->matched[PFW_GLOBS_CHILDREN]));
}

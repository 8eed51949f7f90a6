/* say.c - the recorder's lines on standard error. */
#include "say.h"

#include "os.h"
#include "text.h"

static bool is_quiet;

void pfw_say_quiet(bool quiet)
{
	is_quiet = quiet;
}

void pfw_say(const char *line)
{
	char buf[4608];
	struct pfw_text text;

	if (is_quiet)
		return;
	pfw_text_init(&text, buf, sizeof(buf) - 1);
	pfw_text_add(&text, "pfw: ");
	pfw_text_add(&text, line);
	*text.at++ = '\n';
	pfw_os_write(2, buf, (size_t)(text.at - buf));
}

void pfw_say_number(const char *before, uint64_t number, const char *after)
{
	char buf[512];
	struct pfw_text text;

	pfw_text_init(&text, buf, sizeof(buf));
	pfw_text_add(&text, before);
	pfw_text_add_u64(&text, number, 1);
	pfw_text_add(&text, after);
	pfw_say(buf);
}

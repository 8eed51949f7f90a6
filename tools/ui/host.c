/* ui/host.c - runs a command in this process; see host.h. */
#include "ui/host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"

void host_word(struct host_words *words, const char *word)
{
	if (PFW_PUSH(words->word, words->count, words->room, word))
		words->failed = true;
}

void host_list(struct host_words *words, const char *const *word, size_t count)
{
	for (size_t i = 0; i < count && word[i]; i++)
		host_word(words, word[i]);
}

int host_run(const struct host *host, const struct cli_command *command, struct host_words *words)
{
	const struct host *before = cli_host;
	int status = CLI_USAGE;

	cli_host = host;
	if (words->failed)
		cli_error(command->name, "%s", strerror(ENOMEM));
	else
		status = command->main(command, (int)words->count, (char **)(uintptr_t)words->word);
	cli_host = before;
	free(words->word);
	return status;
}

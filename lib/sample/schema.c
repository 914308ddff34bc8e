/* SPDX-License-Identifier: MIT */
#include "grammar.h"

/* JSON values without blanks; numbers that a double holds. */
static const char values[] =
"value ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
"object ::= \"{\" (pair (\",\" pair)*)? \"}\"\n"
"pair ::= string \":\" value\n"
"array ::= \"[\" (value (\",\" value)*)? \"]\"\n"
"string ::= \"\\\"\" char* \"\\\"\"\n"
"char ::= [^\"\\\\\\x00-\\x1f\\x7f] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" code)\n"
"code ::= [0-9a-cA-CefEF] hex{3} | [dD] [0-7] hex{2} |\n"
"  [dD] [89abAB] hex{2} \"\\\\u\" [dD] [c-fC-F] hex{2}\n"
"hex ::= [0-9a-fA-F]\n"
"number ::= \"-\"? whole (\".\" [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?\n"
"whole ::= \"0\" | [1-9] [0-9]{0,15}\n";

struct pico_grammar *
pico_grammar_json(struct pico_err *err)
{
	char text[sizeof values + 20];
	int n = snprintf(text, sizeof text, "root ::= value\n%s", values);

	return pico_grammar_parse(text, (size_t)n, err);
}

char *
pico_schema_grammar(const char *text, size_t n, size_t *n_out,
    struct pico_err *err)
{
	(void)text;
	(void)n;
	(void)n_out;
	(void)fail(err, "schemas are not supported yet");
	return NULL;
}

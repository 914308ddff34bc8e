/* SPDX-License-Identifier: MIT */
/*
 * Built-in chat layouts, by the names that other programs have for them. They
 * are templates like those of models, only shorter: plain text, no tools.
 */
#include "../base/base.h"
#include "chat.h"

#define EACH(x) "{% for m in messages %}" x "{% endfor %}"
#define GEN(x) "{% if add_generation_prompt %}" x "{% endif %}"
#define ROLES(system, user, assistant) \
	"{% if m.role == 'system' %}" system \
	"{% elif m.role == 'user' %}" user \
	"{% elif m.role == 'assistant' %}" assistant \
	"{% else %}{{ raise_exception(\"the layout has no place for the " \
	"role '\" ~ m.role ~ \"'\") }}{% endif %}"
#define ROLE "{{ m.role }}"
#define TEXT "{{ m.content }}"
#define TRIM "{{ m.content|trim }}"

/* Every role alike: what stands before it, between and behind. */
#define ALIKE(before, between, text, behind, gen) \
	EACH(before ROLE between text behind) GEN(before "assistant" between gen)

/* System and user share a turn, which the answer closes. */
#define TURNS(first, later, system, user, assistant) \
	"{% set turn = namespace(start='" first "') %}" \
	EACH("{{ turn.start }}{% set turn.start = '' %}" \
	ROLES(system, user, assistant "{% set turn.start = '" later "' %}"))

#define SYS "<<SYS>>\n" TEXT "\n<</SYS>>\n\n"
#define SYS_TRIM "<<SYS>>\n" TRIM "\n<</SYS>>\n\n"

const struct layout chat_layouts[] = {
	{ "bailing", EACH("<role>" ROLES("SYSTEM", "HUMAN", "ASSISTANT")
	    "</role>" TEXT) GEN("<role>ASSISTANT</role>") },
	{ "bailing-think", EACH("<role>" ROLES("SYSTEM", "HUMAN", "ASSISTANT")
	    "</role>" TEXT) GEN("<role>ASSISTANT</role><think>") },
	{ "bailing2", "{% if messages[0].role != 'system' %}"
	    "<role>SYSTEM</role>detailed thinking off<|role_end|>{% endif %}"
	    EACH("<role>" ROLES("SYSTEM", "HUMAN", "ASSISTANT") "</role>"
	    TEXT "<|role_end|>") GEN("<role>ASSISTANT</role>") },
	{ "chatglm3", "[gMASK]sop" EACH("<|" ROLE "|>\n " TEXT)
	    GEN("<|assistant|>") },
	{ "chatglm4", "[gMASK]<sop>" EACH("<|" ROLE "|>\n" TEXT)
	    GEN("<|assistant|>\n") },
	{ "chatml", ALIKE("<|im_start|>", "\n", TEXT, "<|im_end|>\n", "") },
	{ "command-r", EACH("<|START_OF_TURN_TOKEN|>" ROLES("<|SYSTEM_TOKEN|>",
	    "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>") TRIM
	    "<|END_OF_TURN_TOKEN|>")
	    GEN("<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>") },
	{ "deepseek", EACH(ROLES(TEXT, "### Instruction:\n" TEXT "\n",
	    "### Response:\n" TEXT "\n<|EOT|>\n")) GEN("### Response:\n") },
	{ "deepseek-ocr", EACH(TEXT) },
	{ "deepseek2", EACH(ROLES(TEXT "\n\n", "User: " TEXT "\n\n",
	    "Assistant: " TEXT "<｜end▁of▁sentence｜>")) GEN("Assistant:") },
	{ "deepseek3", EACH(ROLES(TEXT "\n\n", "<｜User｜>" TEXT,
	    "<｜Assistant｜>" TEXT "<｜end▁of▁sentence｜>"))
	    GEN("<｜Assistant｜>") },
	{ "exaone-moe", EACH("<|" ROLE "|>\n" TRIM "<|endofturn|>\n")
	    GEN("<|assistant|>\n") },
	{ "exaone3", EACH(ROLES("[|system|]" TRIM "[|endofturn|]\n",
	    "[|user|]" TRIM "\n", "[|assistant|]" TRIM "[|endofturn|]\n"))
	    GEN("[|assistant|]") },
	{ "exaone4", EACH(ROLES("[|system|]" TRIM "[|endofturn|]\n",
	    "[|user|]" TRIM "\n", "[|assistant|]" TRIM "[|endofturn|]\n"))
	    GEN("[|assistant|]") },
	{ "falcon3", ALIKE("<|", "|>\n", TEXT, "\n", "") },
	{ "gemma", "{% set held = namespace(text='') %}"
	    EACH("{% if m.role == 'system' %}"
	    "{% set held.text = m.content|trim %}{% else %}<start_of_turn>"
	    "{{ 'model' if m.role == 'assistant' else m.role }}{{ '\n' }}"
	    "{% if held.text and m.role != 'assistant' %}"
	    "{{ held.text + '\n\n' }}{% set held.text = '' %}{% endif %}"
	    TRIM "<end_of_turn>\n{% endif %}")
	    GEN("<start_of_turn>model\n") },
	{ "gigachat", "<s>" EACH(ROLES(TEXT "<|message_sep|>",
	    "user<|role_sep|>" TEXT "<|message_sep|>available functions"
	    "<|role_sep|>[]<|message_sep|>",
	    ROLE "<|role_sep|>" TEXT "<|message_sep|>"))
	    GEN("assistant<|role_sep|>") },
	{ "glmedge", EACH("<|" ROLE "|>\n" TEXT) GEN("<|assistant|>") },
	{ "gpt-oss", EACH("<|start|>" ROLE "<|message|>" TEXT
	    "{{ '<|return|>' if m.role == 'assistant' else '<|end|>' }}")
	    GEN("<|start|>assistant") },
#define GRANITE EACH("<|start_of_role|>" ROLE "<|end_of_role|>" \
	"{% if m.role == 'assistant_tool_call' %}<|tool_call|>{% endif %}" \
	TEXT "<|end_of_text|>\n") \
	GEN("<|start_of_role|>assistant<|end_of_role|>")
	{ "granite", GRANITE },
	{ "granite-4.0", GRANITE },
	{ "granite-4.1", GRANITE },
	{ "grok-2", EACH(ROLES("System: " TRIM, "Human: " TRIM,
	    "Assistant: " TEXT) "<|separator|>{{ '\n\n' }}")
	    GEN("Assistant:") },
	{ "hunyuan-dense", EACH(ROLES(TEXT "<｜hy_place▁holder▁no▁3｜>",
	    "<｜hy_User｜>" TEXT "<｜hy_Assistant｜>", "<｜hy_Assistant｜>" TEXT
	    "<｜hy_place▁holder▁no▁2｜>")) },
	{ "hunyuan-moe", EACH(ROLES("<|startoftext|>" TEXT "<|extra_4|>",
	    "<|startoftext|>" TEXT "<|extra_0|>", TEXT "<|eos|>")) },
	{ "hunyuan-vl", "<｜hy_begin▁of▁sentence｜>" EACH(TEXT
	    ROLES("<｜hy_place▁holder▁no▁3｜>", "<｜hy_User｜>",
	    "<｜hy_Assistant｜>")) },
	{ "kimi-k2", EACH(ROLES("<|im_system|>system", "<|im_user|>user",
	    "<|im_assistant|>assistant") "<|im_middle|>" TEXT "<|im_end|>")
	    GEN("<|im_assistant|>assistant<|im_middle|>") },
	{ "llama2", TURNS("[INST] ", "[INST] ", TEXT "\n", TEXT " [/INST]",
	    TEXT "</s>") },
	{ "llama2-sys", TURNS("[INST] ", "[INST] ", SYS, TEXT " [/INST]",
	    TEXT "</s>") },
	{ "llama2-sys-bos", TURNS("[INST] ", "<s>[INST] ", SYS,
	    TEXT " [/INST]", TEXT "</s>") },
	{ "llama2-sys-strip", TURNS("[INST] ", "[INST] ", SYS_TRIM,
	    TRIM " [/INST]", TRIM "</s>") },
	{ "llama3", ALIKE("<|start_header_id|>", "<|end_header_id|>\n\n", TRIM,
	    "<|eot_id|>", "") },
	{ "llama4", ALIKE("<|header_start|>", "<|header_end|>\n\n", TRIM,
	    "<|eot|>", "") },
	{ "megrez", ALIKE("<|role_start|>", "<|role_end|>", TEXT,
	    "<|turn_end|>", "") },
	{ "minicpm", EACH(ROLES(TRIM, "<用户>" TRIM "<AI>", TRIM)) },
	{ "mistral-v1", TURNS(" [INST] ", " [INST] ", TEXT "\n\n",
	    TEXT " [/INST]", " " TEXT "</s>") },
	{ "mistral-v3", TURNS("[INST] ", "[INST] ", TEXT "\n\n",
	    TEXT "[/INST]", " " TRIM "</s>") },
	{ "mistral-v3-tekken", TURNS("[INST]", "[INST]", TEXT "\n\n",
	    TEXT "[/INST]", TEXT "</s>") },
	{ "mistral-v7", EACH(ROLES(
	    "[SYSTEM_PROMPT] " TEXT "[/SYSTEM_PROMPT]",
	    "[INST] " TEXT "[/INST]", " " TEXT "</s>")) },
	{ "mistral-v7-tekken", EACH(ROLES(
	    "[SYSTEM_PROMPT]" TEXT "[/SYSTEM_PROMPT]",
	    "[INST]" TEXT "[/INST]", TEXT "</s>")) },
	{ "monarch", EACH("{{ '' if loop.first else '<s>' }}" ROLE "{{ '\n' }}"
	    TEXT "</s>\n") GEN("<s>assistant\n") },
	{ "openchat", EACH(ROLES(TEXT, "GPT4 Correct User: " TEXT,
	    "GPT4 Correct Assistant: " TEXT) "<|end_of_turn|>")
	    GEN("GPT4 Correct Assistant:") },
	{ "orion", TURNS("Human: ", "Human: ", TEXT "\n\n",
	    TEXT "\n\nAssistant: </s>", TEXT "</s>") },
	{ "pangu-embedded", "{% if messages[0].role != 'system' %}"
	    "[unused9]系统：[unused10]{% endif %}" EACH("[unused9]" ROLES("系统：", "用户：", "助手：")
	    TEXT "[unused10]") GEN("[unused9]助手：") },
	{ "phi3", ALIKE("<|", "|>\n", TEXT, "<|end|>\n", "") },
	{ "phi4", ALIKE("<|im_start|>", "<|im_sep|>", TEXT, "<|im_end|>", "") },
	{ "rwkv-world", EACH(ROLES("System: ", "User: ", "Assistant: ") TRIM
	    "\n\n") GEN("Assistant:") },
	{ "seed_oss", EACH("<seed:bos>" ROLE "\n"
	    "{{ m.content|trim if m.role == 'assistant' else m.content }}"
	    "<seed:eos>") GEN("<seed:bos>assistant\n") },
	{ "smolvlm", "<|im_start|>" EACH(ROLES(TEXT "\n\n",
	    "User: " TEXT "<end_of_utterance>\n",
	    "Assistant: " TEXT "<end_of_utterance>\n")) GEN("Assistant:") },
	{ "solar-open", EACH("<|begin|>" ROLE "<|content|>" TEXT "<|end|>")
	    GEN("<|begin|>assistant") },
	{ "vicuna", EACH(ROLES(TEXT "\n\n", "USER: " TEXT "\n",
	    "ASSISTANT: " TEXT "</s>\n")) GEN("ASSISTANT:") },
	{ "vicuna-orca", EACH(ROLES("SYSTEM: " TEXT "\n", "USER: " TEXT "\n",
	    "ASSISTANT: " TEXT "</s>\n")) GEN("ASSISTANT:") },
	{ "yandex", EACH(ROLES("", " Пользователь: " TEXT "\n\n",
	    " Ассистент: " TEXT "\n\n")) GEN(" Ассистент:[SEP]") },
	{ "zephyr", ALIKE("<|", "|>\n", TEXT, "<|endoftext|>\n", "") },
};
const size_t chat_n_layouts = COUNT(chat_layouts);

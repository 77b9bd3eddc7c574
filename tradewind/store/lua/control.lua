#!lua flags=no-writes
-- control: the control document that is held here.
--
-- KEYS[1] control  HASH  see control_accept
-- ARGV[1] known    the stamp of the one that the reader knows, "" = of none
-- RETURNS {"ok", stamp, document}; document: "" if the reader knows it, or there is none
-- @include document
local control = KEYS[1]
local stamp, document = held_document(control, ARGV[1])
return { 'ok', stamp, document }

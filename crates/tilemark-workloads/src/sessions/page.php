<?php
// One page of a session. The back end counts it; what it says is the first line, and the rest is as long as was asked.
$session = $_GET['session'] ?? '';
$page = $_GET['page'] ?? '';
$value = $_GET['value'] ?? '';
$bytes = (int) ($_GET['bytes'] ?? 0);
if (!preg_match('/^[0-9a-f]{16}$/', $session) || !preg_match('/^[A-Za-z0-9-]{1,100}$/', $page) || !preg_match('/^[0-9]{1,10}$/', $value)) {
    http_response_code(400);
    exit;
}
$said = false;
// The user decides how long a page may take; here it must only end. An emulated back end may share its thread with dozens of guests.
$within = 120;
// A connection that was kept may have been closed: then a second one is made.
for ($try = 0; $said === false && $try < 2; $try++) {
    $back_end = @pfsockopen(trim(file_get_contents('@ASKS@')), @PORT@, $code, $why, $within);
    if ($back_end === false) {
        break;
    }
    stream_set_timeout($back_end, $within);
    if (@fwrite($back_end, "$session $value\n") !== false) {
        $said = fgets($back_end);
    }
    if ($said === false) {
        $is_late = stream_get_meta_data($back_end)['timed_out'];
        fclose($back_end);
        // It may have counted the page: a second question would count it twice.
        if ($is_late) {
            break;
        }
    }
}
if ($said === false || !preg_match('/^([0-9]+) ([0-9]+)$/', $said, $counted)) {
    http_response_code(502);
    header('Content-Length: 0');
    exit;
}
$line = "session $session page $page is number $counted[1] with a sum of $counted[2]\n";
header('Content-Type: text/html');
header('Content-Length: ' . (strlen($line) + $bytes));
echo $line, file_get_contents('padding.bin', false, null, 0, $bytes);

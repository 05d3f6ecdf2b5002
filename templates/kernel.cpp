// $nodes
$head { $body }

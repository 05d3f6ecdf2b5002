// $nodes
$head {
  $body
}

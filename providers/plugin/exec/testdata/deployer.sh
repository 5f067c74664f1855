# A deployment into files, as the tests of the plugin use it: slot-<slot> holds
# the version, capacity-<slot> the share. mood-<call> makes a call misbehave.
set -eu
call=$1
mood=$(cat "mood-$call" 2>/dev/null || echo fine)
echo "$call $MANENT_SLOT $MANENT_VERSION ($MANENT_STEP_ID)"
case $mood in
refuses)
	echo "login as deploy with $(cat secret) failed" >&2
	exit 3
	;;
not-yet)
	echo "1 of 3 replicas is up"
	exit 75
	;;
hangs)
	echo started >"started-$call"
	exec sleep 1000
	;;
esac
case $call in
deploy)
	echo "$MANENT_VERSION" >"slot-$MANENT_SLOT"
	capacity=100
	[ "$MANENT_GRADUAL" = false ] || capacity=1
	echo $capacity >"capacity-$MANENT_SLOT"
	echo "unit=$MANENT_SLOT-$MANENT_VERSION" >>"$MANENT_OUTPUT"
	;;
scale)
	echo "$MANENT_SHARE" >"capacity-$MANENT_SLOT"
	;;
retire)
	rm -f "capacity-$MANENT_SLOT" "slot-$MANENT_SLOT"
	;;
esac
